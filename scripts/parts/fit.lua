-- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
-- always fits.
local granted = count
if cost * count > room then
  granted = (room - room % cost) / cost
end
local units = granted * cost
