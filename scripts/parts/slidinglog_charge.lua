-- What is ahead of the clock becomes one grant of now, so that all is out within a window; and everything does,
-- where that is more than 250 members, so that this does not take long either.
local write = units > 0
if total > 0 and newest > now then
  local first = redis.call('ZRANGEBYSCORE', key, whole(now + 1), '+inf', 'LIMIT', '0', '1')[1]
  local firstUnits = string.sub(first, 14)
  firstUnits = firstUnits == '' and 1 or firstUnits + 0
  local ahead = (sum - string.sub(first, 1, 12) + firstUnits) % 100000000000
  local many = redis.call('ZCOUNT', key, whole(now + 1), '+inf') > 250
  if many then
    ahead = total
  end
  local merged = entry(sum, ahead)
  if many or ahead == total and not trim then
    redis.call('UNLINK', key)
    trim = false
  else
    redis.call('ZREMRANGEBYSCORE', key, whole(now + 1), '+inf')
  end
  if ahead == total then
    oldest, oldestUnits = { merged, now }, ahead
  end
  redis.call('ZADD', key, whole(now), merged)
  newest, write = now, true
end
-- The grant is added, as one member, and of those that are out at most 250 are taken away, so that no
-- call takes long; a log that is out as a whole is freed by Redis in the background.
if units > 0 then
  if trim and total == 0 then
    redis.call('UNLINK', key)
  elseif trim then
    redis.call('ZREMRANGEBYRANK', key, '0', whole(math.min(redis.call('ZRANK', key, oldest[1]), 250) - 1))
  end
  sum = (sum + units) % 100000000000
  local added = entry(sum, units)
  redis.call('ZADD', key, whole(now), added)
  if total == 0 then
    oldest, oldestUnits, before = { added, now }, units, (sum - units) % 100000000000
  end
  total, newest = total + units, now
end
-- The key expires when its newest grant is out; later where this plan's window is longer than the one it was set for,
-- even if nothing was granted under it yet. A large log is kept for a second more: whoever comes right then
-- finds it out and lets Redis free it in the background, where one that has expired is freed within the call.
local out = math.max(newest + window, now + 1)
if total > 1000 then
  out = out + 1000000
end
local moment = (out + -out % 1000) / 1000
if write or stored and redis.call('PEXPIRETIME', key) < (total > 0 and moment or 0) then
  redis.call('PEXPIREAT', key, whole(moment))
end
