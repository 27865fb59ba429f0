-- fixedWindowCharge: adds `units` and keeps the expiry right; answers the ms left afterwards. `refused` says that of
-- the requests at least one was denied; `left` and `mend` are what fixedWindowLook said.
local function fixedWindowCharge(key, a, nowMillis, units, refused, left, mend)
  local window, mode = tonumber(ARGV[a + 1]), ARGV[a + 2]
  if units > 0 and left == 0 then
    if mode == '1' then
      left = window - nowMillis % window
      redis.call('SET', key, whole(units), 'PXAT', whole(nowMillis + left))
    else
      left = window
      redis.call('SET', key, whole(units), 'PX', ARGV[a + 1])
    end
    return left
  end
  if units > 0 then
    redis.call('INCRBY', key, whole(units))
  end
  if refused and left > 0 and (mode == '2' or mode == '3' and units == 0) then
    left, mend = window, true
  end
  if mend and mode == '1' then
    redis.call('PEXPIREAT', key, whole(nowMillis + left))
  elseif mend then
    redis.call('PEXPIRE', key, whole(left))
  end
  return left
end
