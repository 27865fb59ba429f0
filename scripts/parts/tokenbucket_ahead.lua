-- How far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill the
-- level, rounded down, so that the bucket is full again within burst / rate.
local ahead = 0
if at > now then
  local rest = tokens % n
  local within = rest * d + part
  ahead = math.min(at - now, (tokens - rest) / n * d + (within - within % n) / n)
end
