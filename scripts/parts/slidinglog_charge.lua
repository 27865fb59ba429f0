-- What is ahead of the clock becomes one grant of now, so that all is out within a window; and everything
-- does, where that is more than 250 members, so that this does not take long either, or where units were
-- given back.
local write = units > 0
if live and newest > now then
  local first = redis.call('ZRANGEBYSCORE', key, whole(now + 1), '+inf', 'LIMIT', '0', '1')[1]
  local firstUnits = string.sub(first, 14)
  firstUnits = firstUnits == '' and 1 or firstUnits + 0
  local ahead = (sum - string.sub(first, 1, 12) + firstUnits) % 100000000000
  local many = refunded > 0 or redis.call('ZCOUNT', key, whole(now + 1), '4503599627370495') > 250
  if many then
    ahead = total
  end
  local merged = entry(sum, ahead)
  if many or ahead == total and not trim then
    redis.call('UNLINK', key)
    trim, refunds = false, false
  else
    redis.call('ZREMRANGEBYSCORE', key, whole(now + 1), '4503599627370495')
  end
  if ahead == total then
    oldest, oldestUnits, before = { merged, now }, ahead, (sum - ahead) % 100000000000
  end
  live = ahead > 0
  if live then
    redis.call('ZADD', key, whole(now), merged)
  end
  newest, write = now, true
end
-- The grant is added, as one member, and of those that are out at most 250 are taken away, so that no
-- call takes long; a log that is out as a whole is freed by Redis in the background.
if units > 0 then
  if trim and not live then
    redis.call('UNLINK', key)
    refunds = false
  elseif trim then
    redis.call('ZREMRANGEBYRANK', key, '0', whole(math.min(redis.call('ZRANK', key, oldest[1]), 250) - 1))
  end
  if trim and refunds then
    local low = redis.call('ZCOUNT', key, '-inf', '4503599627370495')
    local gone = redis.call('ZCOUNT', key, '4503599627370496', whole(now - window + 4503599627370496))
    redis.call('ZREMRANGEBYRANK', key, whole(low), whole(low + math.min(gone, 250) - 1))
  end
  sum = (sum + units) % 100000000000
  local added = entry(sum, units)
  redis.call('ZADD', key, whole(now), added)
  if not live then
    oldest, oldestUnits, before, live = { added, now }, units, (sum - units) % 100000000000, true
  end
  total, newest = total + units, now
end
-- The key expires when its newest grant is out; later where this plan's window is longer than the one it
-- was set for, even if nothing was granted under it yet. A large log is kept for a second more: whoever
-- comes right then finds it out and lets Redis free it in the background, where one that has expired is
-- freed within the call.
local out = math.max(newest + window, now + 1)
if total > 1000 then
  out = out + 1000000
end
local moment = (out + -out % 1000) / 1000
if write or stored and redis.call('PEXPIRETIME', key) < (live and moment or 0) then
  redis.call('PEXPIREAT', key, whole(moment))
end
