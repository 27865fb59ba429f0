-- slidingwindow_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  keys
-- ARGV:  cost units; limit units; window us; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining units, below 0 where the limit was
--        lowered; previous units; now us
-- Cost:  O(keys)
-- Uses:  HINCRBY HMGET HSET PEXPIREAT PTTL TIME
local cost, limit, window = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local reply, fields, arguments = {}, 4, 3

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
  -- SlidingWindow. Windows are counted from 1970, one after the other. Stored, a hash: i the index of the
  -- window that was open last; p and c the units granted in the window before it and in it; w the length of
  -- those windows.
  --   limit   units
  --   window  us
  -- Found: the index of the open window and how long it has been open; the units granted in the previous one
  -- and in this; the weight of the previous one, rounded up: its units in proportion to the part of it that a
  -- window which ends now still covers; and the state of what is stored: 0 nothing, 1 the counts of the open
  -- window, 2 those of an earlier one, 3 something to be stored anew. That is so where the clock stepped back
  -- behind the stored window: then all that was counted, up to the limit, counts in the open one. And where
  -- the windows had another length: then what was counted in the open one counts in that of the new length,
  -- and what the one before weighs now it weighs there too, to lose it by the end of that (or counts there,
  -- where the number that weighs so much would leave 2^52).
  local previous, current, state, length = 0, 0, 0, window
  local h = redis.call('HMGET', key, 'i', 'p', 'c', 'w')
  if h[1] then
    length = h[4] + 0
  end
  local elapsed = now % length
  local index = (now - elapsed) / length
  if h[1] then
    local behind = index - h[1]
    state = 2
    if behind == 0 then
      previous, current, state = h[2] + 0, h[3] + 0, 1
    elseif behind == 1 then
      previous = h[3] + 0
    elseif behind < 0 then
      current, state = math.max(math.min(h[2] + h[3], limit), h[3] + 0), 3
    end
  end
  local weight = previous
  if elapsed > 0 and previous > 0 then
    local product = previous * (length - elapsed)
    if product <= 4503599627370496 then
      weight = (product + -product % length) / length
    else
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
      local up
      weight, up = rescale(length - elapsed, length, previous)
      if up then
        weight = weight + 1
      end
    end
  end
  if length ~= window then
    elapsed, state = now % window, 3
    index = (now - elapsed) / window
    if weight > 0 then
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
      local ahead = window - elapsed
      local rest = window % ahead
      previous = (window - rest) / ahead * weight + rescale(rest, ahead, weight)
      if previous > 4503599627370496 then
        previous, current, weight = 0, current + weight, 0
      end
    end
  end
  local remaining = limit - current - weight
  local room = math.max(remaining, 0)
  -- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
  -- always fits.
  local granted = count
  if cost * count > room then
    granted = (room - room % cost) / cost
  end
  local units = granted * cost
  reply[filled + 1] = 0
  -- The counts are stored when something was granted, or they have to be stored anew. The key expires with the
  -- window after the open one, in which what was granted now has a weight. Whether its expiry was taken away,
  -- one request in sixty-four looks.
  local write = units > 0 or state == 3
  if write or state ~= 0 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
    local anew = write and state ~= 1
    if anew then
      local counted = whole(current + units)
      redis.call('HSET', key, 'i', whole(index), 'p', whole(previous), 'c', counted, 'w', whole(window))
    elseif write then
      redis.call('HINCRBY', key, 'c', granted == 1 and ARGV[1] or whole(units))
    end
    if anew or not write or now % 64 == 0 and redis.call('PTTL', key) == -1 then
      redis.call('PEXPIREAT', key, whole((index + 2) * window / 1000))
    end
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = granted, remaining - units, previous, now
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
