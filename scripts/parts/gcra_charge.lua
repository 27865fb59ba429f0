-- What is spent is stored when something was granted or given back ("units"), or the stored moment or its
-- expiry has to be mended. Whether a key that is not written has an expiry, one request in sixty-four looks.
spent = spent + units
if units ~= 0 or mend or arrival and now % 64 == 0 and redis.call('PTTL', key) == -1 then
  --@ whole
  local full = now + (spent + -spent % n) / n
  local moment = full + -full % 1000
  if moment <= now then
    moment = now + 1000 -- a whole millisecond
  end
  if units ~= 0 or mend then
    arrival = whole((clock + spent) % modulus)
  end
  redis.call('SET', key, arrival, 'PXAT', whole(moment / 1000))
end
