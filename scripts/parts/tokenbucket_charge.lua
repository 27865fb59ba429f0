-- tokenBucketCharge: takes `units` off the level that tokenBucketLook said, and stores it when it has to be: something
-- was taken, the rate is another one, or the clock stepped back too far. Answers the tokens left and how far their
-- moment is ahead of the clock.
-- Expiry: when the bucket is full again, rounded up, and never before what is set: a plan with less to fill must not
-- let the key go while another plan of the same key has tokens to earn. A key that would go too soon (by such a plan,
-- or by a hand that took its expiry away) is mended even when nothing else is written.
-- It is a moment and not a lifetime, which Redis would count from a clock read before TIME.
local function tokenBucketCharge(key, a, now, units, tokens, part, at, state)
  tokens = tokens - units
  local ahead = tokenBucketAhead(a, now, tokens, part, at)
  local n, d = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local missing = tonumber(ARGV[a]) - tokens
  local turns = math.floor(missing / n)
  local full = ahead + turns * d + math.ceil(((missing - turns * n) * d - part) / n)
  if units > 0 or state == 2 or at > now + ahead then
    if state == 1 then
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
    else
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead),
        'n', ARGV[a + 1], 'd', ARGV[a + 2])
    end
  elseif state == 0 or redis.call('PEXPIRETIME', key) >= math.floor((now + full) / 1000) then
    return tokens, ahead
  end
  local moment = math.max(math.ceil((now + full) / 1000), math.floor(now / 1000) + 1)
  if state == 0 or redis.call('PEXPIREAT', key, whole(moment), 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIREAT', key, whole(moment))
  end
  return tokens, ahead
end
