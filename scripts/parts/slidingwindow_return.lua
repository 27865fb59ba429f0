-- What is stored is left at the window that was open last, and what is given back is taken off the one that
-- it was counted in: that one, or the one before. Under windows of another length it is not known any more.
local back = 0
local h = redis.call('HMGET', key, 'i', 'p', 'c', 'w')
if h[1] and h[4] + 0 == window then
  local behind = h[1] - (taken - taken % window) / window
  if behind == 0 then
    back = math.min(units, h[3] + 0)
    redis.call('HSET', key, 'c', whole(h[3] - back))
  elseif behind == 1 then
    back = math.min(units, h[2] + 0)
    redis.call('HSET', key, 'p', whole(h[2] - back))
  end
end
