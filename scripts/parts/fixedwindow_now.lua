-- Only windows on the grid of the clock need to know the time.
local nowMillis = 0
if mode == '1' then
  --@ now
  nowMillis = (now - now % 1000) / 1000
end
