-- The level is stored when it has to be ("write"): something was taken or given back, it was counted under
-- another plan, or the clock stepped back too far. Expiry: when the bucket is full again, rounded up, and
-- never before what is set: a plan with less to fill must not let the key go while another plan of the same
-- key has tokens to earn. It is a moment and not a lifetime, which Redis would count from a clock read
-- before TIME. A key whose expiry was taken away is mended even when nothing else is written: one request in
-- sixty-four looks.
if write or state == 1 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
  --@ whole
  local missing = burst - tokens
  local rest = missing % n
  local within = rest * d - part
  local full = now + ahead + (missing - rest) / n * d + (within + -within % n) / n
  full = full + -full % 1000
  if full <= now then
    full = now + 1000 -- a whole millisecond
  end
  local moment = whole(full / 1000)
  if write and not anew then
    redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
  elseif write then
    local under = plan
    if refunded > 0 or changed > 0 then
      under = string.format('%s %s %s', plan, whole(refunded), whole(changed))
    end
    redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead), 'b', under)
  end
  if state == 0 or redis.call('PEXPIREAT', key, moment, 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIREAT', key, moment)
  end
end
