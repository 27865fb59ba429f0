-- A grant that was made together with others is a part of their member, which is then written again as what
-- was granted before it, the grant, and what was granted behind it. What became one grant when the clock stepped
-- back is not taken apart.
local member = entry(sum, units)
local score = redis.call('ZSCORE', key, member)
if not score then
  local moment = whole(taken)
  local beside = redis.call('ZRANGEBYSCORE', key, moment, moment)
  for j = 1, #beside do
    local all = beside[j]
    local isTogether = string.sub(all, 13, 13) == '*'
    local own = isTogether and string.sub(all, 14) + 0 or 0
    local behind = (string.sub(all, 1, 12) - sum) % 100000000000
    local ahead = own - units - behind
    if isTogether and ahead >= 0 then
      if behind > 0 then
        redis.call('ZADD', key, moment, entry(sum + behind, behind, '%06d%06d*%d'))
      end
      redis.call('ZADD', key, moment, member)
      if ahead > 0 then
        redis.call('ZADD', key, moment, entry(sum + 100000000000 - units, ahead, '%06d%06d*%d'))
      end
      redis.call('ZREM', key, all)
      score = moment
      break
    end
  end
end
-- The grant is marked, and a refund is put where it belongs by its moment. Those of later grants are
-- written again with the greater sum; where they are more than 250 they become one with this, so that
-- this does not take long: what was given back of them is then forgotten earlier than they are, with the
-- grant.
local back = 0
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
  -- Grants that were given back and stand beside each other, and their refunds, become one: so there are never many
  -- more of them than of others.
  local marked = entry(sum, back, '%06d%06d-%d')
  local rank = redis.call('ZRANK', key, marked)
  local around = redis.call('ZRANGE', key, whole(math.max(rank - 1, 0)), whole(rank + 1), 'WITHSCORES')
  for j = 1, #around - 3, 2 do
    local one, other = around[j], around[j + 2]
    if string.sub(one, 13, 13) == '-' and string.sub(other, 13, 13) == '-' then
      local from = whole(around[j + 1] + 4503599627370496)
      local to = whole(around[j + 3] + 4503599627370496)
      local both = redis.call('ZRANGEBYSCORE', key, from, to, 'LIMIT', '0', '3')
      local ones, others = string.sub(one, 14) + 0, string.sub(other, 14) + 0
      if #both == 2 and string.sub(both[1], 15) + 0 == ones and string.sub(both[2], 15) + 0 == others then
        around[j + 2] = entry(string.sub(other, 1, 12), ones + others, '%06d%06d-%d')
        redis.call('ZADD', key, whole(around[j + 3] + 0), around[j + 2])
        redis.call('ZADD', key, to, entry(string.sub(both[2], 2, 13), ones + others, 'r%06d%06d:%d'))
        redis.call('ZREM', key, one, other, both[1], both[2])
      end
    end
  end
end
