-- As many of the requests, of `one` each, as fit into `room` >= 0 here; a look, of cost 0, always fits.
if one * count > room then
  granted = math.min(granted, (room - room % one) / one)
end
