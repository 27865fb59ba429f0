-- tokenbucket_many.lua: of each key, grant as many of `count` requests of `cost` tokens each as the bucket holds.
-- KEYS:  keys
-- ARGV:  cost tokens; burst tokens; n tokens; d us; plan "burst n d"; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining tokens; part 1/d tokens; ahead us;
--        now us; refunded tokens
-- Cost:  O(keys)
-- Uses:  HMGET HSET PEXPIREAT PTTL TIME
local cost, burst, n, d, plan = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5]
local reply, fields, arguments = {}, 6, 5

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

local function decide(key, count, filled)
  -- TokenBucket. Stored, a hash: l whole tokens; p the part of a token beyond them, in 1/d tokens, 0 <= p < d;
  -- t the moment they were counted, in microseconds of the server's clock; b the plan they were counted under,
  -- "burst n d", and behind it, once there was any, "refunded changed". The numbers are whole, and none computed
  -- here leaves 2^53: the plan holds d * (n + 1) <= 2^52 and burst * d / n <= 2^52.
  --   burst     tokens
  --   n, d      the rate, n/d tokens a microsecond in lowest terms
  --   plan      "burst n d"
  --   changed   when the plan was changed: no request taken by then (t) is given back any more; 0: never
  --   refunded  the units given back since, below 2^52
  -- Found: the level (tokens, part), the moment `at` up to which it is counted, and the state of what is stored:
  -- 0 nothing, 1 counted under this plan, 2 counted under another. A clock behind the stored moment refills
  -- nothing.
  local tokens, part, at, state, refunded, changed = burst, 0, now, 0, 0, 0
  local h = redis.call('HMGET', key, 'l', 'p', 't', 'b')
  if h[1] then
    tokens, part, at, state = h[1] + 0, h[2] + 0, h[3] + 0, 1
    local storedN, storedD = n, d
    if h[4] ~= plan then
      local under, sum, when = string.match(h[4], '^(%d+ %d+ %d+) ?(%d*) ?(%d*)$')
      if sum ~= '' then
        refunded, changed = sum + 0, when + 0
      end
      if under ~= plan then
        state, refunded, changed = 2, 0, math.max(at, now - 1)
        storedN, storedD = string.match(under, ' (%d+) (%d+)$')
        storedN, storedD = storedN + 0, storedD + 0
      end
    end
    if now > at then
      local rest = (now - at) % storedD
      local turns = (now - at - rest) / storedD
      part = part + rest * storedN
      rest = part % storedD
      tokens, part, at = tokens + turns * storedN + (part - rest) / storedD, rest, now
    end
    if state == 2 and storedD ~= d then
      -- rescale(x, from, to): x * to / from rounded down, for 0 <= x < from, and whether that lost anything. Digit
      -- by binary digit of `to`, since the product may leave 2^53.
      local function rescale(x, from, to)
        local scaled, rest, bit = 0, 0, 4503599627370496
        for _ = 1, 53 do
          scaled, rest = scaled * 2, rest * 2
          if rest >= from then
            scaled, rest = scaled + 1, rest - from
          end
          if to >= bit then
            to, rest = to - bit, rest + x
            if rest >= from then
              scaled, rest = scaled + 1, rest - from
            end
          end
          bit = bit / 2
        end
        return scaled, rest > 0
      end
      part = rescale(part, storedD, d)
    end
    if tokens >= burst then
      tokens, part = burst, 0
    end
  end
  local room = tokens
  -- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
  -- always fits.
  local granted = count
  if cost * count > room then
    granted = (room - room % cost) / cost
  end
  local units = granted * cost
  reply[filled + 1] = 0
  tokens = tokens - units
  -- How far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill the
  -- level, rounded down, so that the bucket is full again within burst / rate.
  local ahead = 0
  if at > now then
    local rest = tokens % n
    local within = rest * d + part
    ahead = math.min(at - now, (tokens - rest) / n * d + (within - within % n) / n)
  end
  local write, anew = units > 0 or state == 2 or at > now + ahead, state ~= 1
  -- The level is stored when it has to be ("write"): something was taken or given back, it was counted under
  -- another plan, or the clock stepped back too far. Expiry: when the bucket is full again, rounded up, and
  -- never before what is set: a plan with less to fill must not let the key go while another plan of the same
  -- key has tokens to earn. It is a moment and not a lifetime, which Redis would count from a clock read
  -- before TIME. A key whose expiry was taken away is mended even when nothing else is written: one request in
  -- sixty-four looks.
  if write or state == 1 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
    local missing = burst - tokens
    local rest = missing % n
    local within = rest * d - part
    local full = now + ahead + (missing - rest) / n * d + (within + -within % n) / n
    full = full + -full % 1000
    if full <= now then
      full = now + 1000 -- a whole millisecond
    end
    local moment = whole(full / 1000)
    if write and not anew then
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
    elseif write then
      local under = plan
      if refunded > 0 or changed > 0 then
        under = string.format('%s %s %s', plan, whole(refunded), whole(changed))
      end
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead), 'b', under)
    end
    if state == 0 or redis.call('PEXPIREAT', key, moment, 'GT') == 0 and redis.call('PTTL', key) == -1 then
      redis.call('PEXPIREAT', key, moment)
    end
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, tokens, part
  reply[filled + 4], reply[filled + 5], reply[filled + 6] = ahead, now, refunded
end

-- Each key is decided by itself, so that one where something else is stored costs the others nothing. Where it
-- could not be, "granted" is -1, and nothing was charged; or -2, and it may have been, for a command failed that
-- may come behind another one that writes. Those that fail for what the server or the key is like fail as the first.
--   decide(key, count, filled)  puts its `fields` integers behind the first `filled` of the reply, and a 0 there
--                               before it writes anything
for i = 1, #KEYS do
  local count, filled = ARGV[arguments + i], (i - 1) * fields
  local decided, wrong = pcall(decide, KEYS[i], count == '1' and 1 or count + 0, filled)
  local late = false
  if not decided and reply[filled + 1] then
    wrong, late = type(wrong) == 'table' and wrong.err or wrong, true
    local first = { 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS', 'not an integer', 'non local key' }
    for j = 1, #first do
      late = late and not string.match(wrong, first[j])
    end
  end
  if not decided or reply[filled + 1] < 0 then
    reply[filled + 1] = late and -2 or -1
    for field = 2, fields do
      reply[filled + field] = 0
    end
  end
end
return reply
