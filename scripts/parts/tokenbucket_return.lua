-- The bucket as the request left it (left, leftPart; at the moment taken) has earned something since, and
-- others may have given back what they took before (refunded; since: refundedThen). What it would lack
-- now of being full, had nobody else taken anything, is what of the request was not earned again; no more
-- is given back than that. So nobody is granted what would not have been, had nothing been taken in the
-- first place. A bucket that is full, or whose plan changed, is given nothing; nor is one that is not the one
-- it was (others < 0).
local back, write, anew = 0, false, true
local others = refunded - refundedThen
if state == 1 and changed < taken and others >= 0 then
  if now > taken then
    local rest = (now - taken) % d
    local turns = (now - taken - rest) / d
    leftPart = leftPart + rest * n
    rest = leftPart % d
    left, leftPart = left + turns * n + (leftPart - rest) / d, rest
  end
  left = left + others
  local whollyBack = left + units < burst or left + units == burst and leftPart == 0
  if whollyBack then
    back, write, tokens = units, true, tokens + units
  elseif left < burst then
    write, back = true, burst - left
    tokens, part = tokens + back, part - leftPart
    if part < 0 then
      tokens, part = tokens - 1, part + d
    end
  end
  refunded = refunded + back
  if refunded >= 4503599627370496 then -- beyond what is counted: as if the plan had changed
    refunded, changed = 0, math.max(at, now)
  end
  if write and not whollyBack and leftPart > 0 then
    back = back - 1
  end
  if tokens >= burst then
    tokens, part = burst, 0
  end
end
if write then
  --@ tokenbucket_ahead
  --@ tokenbucket_charge
end
