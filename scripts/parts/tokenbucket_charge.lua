-- tokenBucketCharge: takes `units` off the level that tokenBucketLook said, and stores it when it has to be: something
-- was taken, the rate is another one, or the clock stepped back too far. Answers the tokens left and how far their
-- moment is ahead of the clock. Expiry: when the bucket is full again, rounded up.
local function tokenBucketCharge(key, a, now, units, tokens, part, at, state)
  tokens = tokens - units
  local ahead = tokenBucketAhead(a, now, tokens, part, at)
  if units > 0 or state == 2 or at > now + ahead then
    local n, d = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    if state == 1 then
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead))
    else
      redis.call('HSET', key, 'l', whole(tokens), 'p', whole(part), 't', whole(now + ahead),
        'n', ARGV[a + 1], 'd', ARGV[a + 2])
    end
    local missing = tonumber(ARGV[a]) - tokens
    local turns = math.floor(missing / n)
    local full = ahead + turns * d + math.ceil(((missing - turns * n) * d - part) / n)
    redis.call('PEXPIRE', key, whole(math.max(math.ceil(full / 1000), 1)))
  elseif state == 1 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ARGV[a + 3])
  end
  return tokens, ahead
end
