-- Only windows on the grid of the clock need to know the time ("clocked").
local nowMillis, clocked = 0, mode == '1'
if clocked then
  --@ now
  nowMillis = (now - now % 1000) / 1000
end
