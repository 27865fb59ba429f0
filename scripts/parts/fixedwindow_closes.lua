-- When the window of a grant ends: the moment by which it is known again when units are given back.
local closes = 0
if units > 0 and clocked then
  closes = nowMillis + left
elseif units > 0 then
  closes = redis.call('PEXPIRETIME', key)
end
