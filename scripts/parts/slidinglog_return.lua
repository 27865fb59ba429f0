-- The grant is marked, and a refund is put where it belongs by its moment. Those of later grants are
-- written again with the greater sum; where they are more than 250 they become one with this, so that
-- this does not take long: what was given back of them is then forgotten earlier than they are, with the
-- grant.
local back = 0
local member = entry(sum, units)
local score = redis.call('ZSCORE', key, member)
if score and score + 0 == taken then
  back = units
  redis.call('ZADD', key, whole(taken), entry(sum, units, '%06d%06d-%d'))
  redis.call('ZREM', key, member)
  local at = taken + 4503599627370496
  local earlier = redis.call('ZREVRANGEBYSCORE', key, whole(at), '4503599627370496', 'LIMIT', '0', '1')[1]
  local later = redis.call('ZRANGEBYSCORE', key, whole(at + 1), '+inf', 'WITHSCORES', 'LIMIT', '0', '251')
  local with = units
  if earlier then
    with = units + string.sub(earlier, 2, 13)
  elseif later[1] then
    with = units + string.sub(later[1], 2, 13) - string.sub(later[1], 15)
  end
  if later[1] then
    local all = units + string.sub(redis.call('ZRANGE', key, '-1', '-1')[1], 2, 13)
    redis.call('ZREMRANGEBYSCORE', key, whole(at + 1), '+inf')
    if later[501] then
      units = (all - with + units) % 100000000000
      later, with = {}, all
    end
  end
  redis.call('ZADD', key, whole(at), entry(with, units, 'r%06d%06d:%d'))
  for j = 1, #later, 2 do
    local sumWith, ownUnits = string.sub(later[j], 2, 13) + back, string.sub(later[j], 15) + 0
    redis.call('ZADD', key, whole(later[j + 1] + 0), entry(sumWith, ownUnits, 'r%06d%06d:%d'))
  end
end
