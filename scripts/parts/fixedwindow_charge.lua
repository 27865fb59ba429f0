-- The units granted are added, and the expiry kept right.
if units > 0 then
  local added = ARGV[1]
  if granted > 1 then
    added = whole(units)
  end
  if left > 0 then
    redis.call('INCRBY', key, added)
  elseif clocked then
    left = longest
    redis.call('SET', key, added, 'PXAT', whole(nowMillis + left))
  else
    left = longest
    redis.call('SET', key, added, 'PX', whole(left))
  end
end
if granted < count and left > 0 and (mode == '2' or mode == '3' and units == 0) then
  left, mend = window, true
end
if mend and clocked then
  redis.call('PEXPIREAT', key, whole(nowMillis + left))
elseif mend then
  redis.call('PEXPIRE', key, whole(left))
end
