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
    --@ rescale
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
    --@ rescale
    local ahead = window - elapsed
    local rest = window % ahead
    previous = (window - rest) / ahead * weight + rescale(rest, ahead, weight)
    if previous > 4503599627370496 then
      previous, current, weight = 0, current + weight, 0
    end
  end
end
local remaining = limit - current - weight
