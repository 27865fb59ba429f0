-- A window is known by its end: a later one ends later, and one that was cut shorter, or started again, is
-- not known again.
local back = 0
local counted = redis.call('GET', key)
if counted and redis.call('PEXPIRETIME', key) == closes then
  back = math.min(units, counted + 0)
  redis.call('DECRBY', key, whole(back))
end
