-- How long it takes until a request of `cost` units fits: until the members are out whose units it lacks.
-- Members have at least one unit each, so that it is the lacking-th one at the latest, and that one if all
-- have one.
local lacking = total + cost - limit
if lacking > 0 then
  local last = oldest
  if lacking > oldestUnits then
    local low, members = redis.call('ZRANK', key, oldest[1]), redis.call('ZCARD', key)
    local high = math.min(low + lacking, members) - 1
    low = total == members - low and high or low + 1
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local probe = redis.call('ZRANGE', key, whole(middle), whole(middle))[1]
      if (string.sub(probe, 1, 12) - before) % 100000000000 >= lacking then
        high = middle
      else
        low = middle + 1
      end
    end
    last = redis.call('ZRANGE', key, whole(low), whole(low), 'WITHSCORES')
  end
  retry = math.min(last[2] + 0, now) + window - now
end
