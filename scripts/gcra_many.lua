-- gcra_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  keys
-- ARGV:  cost 1/n us; capacity 1/n us; n tokens; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; spent 1/n us; now us
-- Cost:  O(keys)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local cost, capacity, n = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local reply, fields, arguments = {}, 3, 3

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- 2^52, rounded down to a multiple of n.
local modulus = 4503599627370496 - 4503599627370496 % n

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
  -- GCRA. Stored: when what was spent will be earned again (the theoretical arrival time of the ATM Forum's
  -- cell rate algorithm), in units of 1/n microseconds modulo `modulus`; the key's expiry is that moment,
  -- rounded up to a millisecond.
  --   capacity  units: burst * d; one token is d units
  --   n         of the rate, n/d tokens a microsecond in lowest terms
  --   modulus   units: the greatest multiple of n up to 2^52; the plan holds capacity <= modulus / 4
  -- Found: the units spent and not earned again yet, 0 <= spent <= capacity. Where the clock stepped back it is
  -- all of the capacity, and "mend" says that it is to be stored. A key lives for up to a millisecond longer
  -- than it matters, and a key whose expiry was taken away lives on: what it says is over, and looks as if it
  -- were far ahead. What tells that is the key's expiry, wrong by a turn of the moments or not at all; by half a turn
  -- is far enough, for the expiry of a key that moved to another server goes by the clock of that.
  local turn = modulus / n
  local clock = now % turn * n
  local spent, mend = 0, false
  local arrival = redis.call('GET', key)
  if arrival then
    spent = (arrival - clock) % modulus
    if spent > capacity then
      if spent > modulus / 4 * 3 and redis.call('PEXPIRETIME', key) <= (now + turn / 2) / 1000 + 1 then
        spent = 0
      else
        spent, mend = capacity, true
      end
    elseif turn < 86400000000 and redis.call('PEXPIRETIME', key) > (now + spent / n + turn / 2) / 1000 + 2 then
      spent, mend = capacity, true
    end
  end
  local room = capacity - spent
  -- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
  -- always fits.
  local granted = count
  if cost * count > room then
    granted = (room - room % cost) / cost
  end
  local units = granted * cost
  reply[filled + 1] = 0
  -- What is spent is stored when something was granted or given back ("units"), or the stored moment or its
  -- expiry has to be mended. Whether a key that is not written has an expiry, one request in sixty-four looks.
  spent = spent + units
  if units ~= 0 or mend or arrival and now % 64 == 0 and redis.call('PTTL', key) == -1 then
    local full = now + (spent + -spent % n) / n
    local moment = full + -full % 1000
    if moment <= now then
      moment = now + 1000 -- a whole millisecond
    end
    if units ~= 0 or mend then
      arrival = whole((clock + spent) % modulus)
    end
    redis.call('SET', key, arrival, 'PXAT', whole(moment / 1000))
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, spent, now
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
