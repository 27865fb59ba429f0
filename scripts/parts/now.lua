-- nowMicros(): the server's clock, microseconds since 1970. Added as numbers: as text, "5" microseconds would need its
-- leading zeros.
local function nowMicros()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
