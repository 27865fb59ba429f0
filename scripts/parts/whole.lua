-- whole(n): an integer as text with all its digits. A number handed to a command as it is may be written as 1e+15, or
-- cut to 14 digits by tostring and "..".
local function whole(n)
  return string.format('%.0f', n)
end
