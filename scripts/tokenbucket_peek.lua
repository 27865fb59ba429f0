-- tokenbucket_peek.lua: the level a take would find now. Writes nothing.
-- KEYS:  key
-- ARGV:  burst tokens; n tokens; d us; plan "burst n d"
-- Reply: granted requests, always 0; remaining tokens; part 1/d tokens; ahead us
-- Cost:  O(1)
-- Uses:  HMGET TIME
local key, burst, n, d, plan = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4]

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

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

-- How far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill the
-- level, rounded down, so that the bucket is full again within burst / rate.
local ahead = 0
if at > now then
  local rest = tokens % n
  local within = rest * d + part
  ahead = math.min(at - now, (tokens - rest) / n * d + (within - within % n) / n)
end
return { 0, tokens, part, ahead }
