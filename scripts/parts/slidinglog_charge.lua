-- What is ahead of the clock becomes one grant of now, so that all is out within a window; and everything
-- does, where that is more than 250 members, or where units were given back. "kept" is the first member
-- that stays. Members are added before any is taken away: the key is never gone, for it would be another
-- node's while its slot moves, and nothing is lost where one of the two is refused.
local write, pulled, many, kept = units > 0, live and newest > now, false, oldest[1]
if pulled then
  local first = redis.call('ZRANGEBYSCORE', key, whole(now + 1), '+inf', 'LIMIT', '0', '1')[1]
  local firstUnits = string.sub(first, 14)
  firstUnits = firstUnits == '' and 1 or firstUnits + 0
  local ahead = (sum - string.sub(first, 1, 12) + firstUnits) % 100000000000
  many = refunded > 0 or redis.call('ZCOUNT', key, whole(now + 1), '4503599627370495') > 250
  if many then
    ahead = total
  end
  live = ahead > 0
  if live then
    local merged = entry(sum, ahead)
    redis.call('ZADD', key, whole(now), merged)
    if ahead == total then
      oldest, oldestUnits, before, kept = { merged, now }, ahead, (sum - ahead) % 100000000000, merged
    end
  end
  newest, write, ended = now, true, false
end
-- The grant is added, as one member.
if units > 0 then
  sum = (sum + units) % 100000000000
  local added = entry(sum, units, granted > 1 and '%06d%06d*%d')
  redis.call('ZADD', key, whole(now), added)
  if not live then
    oldest, oldestUnits, before, live, kept = { added, now }, units, (sum - units) % 100000000000, true, added
  end
  total, newest, ended = total + units, now, false
end
-- What was pulled back is taken away; and with each grant, of what is out, at most 250 members with their
-- refunds, so that no call takes long.
if pulled then
  redis.call('ZREMRANGEBYSCORE', key, whole(now + 1), many and '+inf' or '4503599627370495')
  refunds = refunds and not many
end
if many or trim and units > 0 then
  local gone = live and redis.call('ZRANK', key, kept) or redis.call('ZCARD', key)
  gone = many and gone or math.min(gone, 250)
  if gone > 0 and refunds then
    local final = redis.call('ZRANGE', key, whole(gone - 1), whole(gone - 1), 'WITHSCORES')
    redis.call('ZREMRANGEBYSCORE', key, '4503599627370496', whole(final[2] + 4503599627370496))
  end
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', whole(gone - 1))
  end
end
-- The key expires when its newest grant is out; later where this plan's window is longer than the one it
-- was set for, even if nothing was granted under it yet. A large log is kept for a second more: whoever
-- comes right then finds it out, and takes it away bit by bit, where one that has expired is freed as a
-- whole within the call that finds it.
local out = math.max(newest + window, now + 1)
if total > 1000 then
  out = out + 1000000
end
local moment = (out + -out % 1000) / 1000
if write or stored and redis.call('PEXPIRETIME', key) < (live and moment or 0) then
  redis.call('PEXPIREAT', key, whole(moment))
end
