-- TokenBucket. Stored, a hash: l whole tokens; p the part of a token beyond them, in 1/d tokens, 0 <= p < d; t the
-- moment they were counted, in microseconds of the server's clock; n and d the rate they were filled at, n/d tokens a
-- microsecond. The numbers are whole, and none computed here leaves 2^53: the plan holds d * (n + 1) <= 2^52 and
-- burst * d / n <= 2^52.
-- Its numbers, from ARGV[a]:
--   burst  tokens
--   n, d   the rate, n/d tokens a microsecond in lowest terms

-- rescale(part, d, e): floor(part * e / d) for 0 <= part < d. Digit by binary digit of e, since the product may leave
-- 2^53.
local function rescale(part, d, e)
  local scaled, rest, bit = 0, 0, 4503599627370496
  for _ = 1, 53 do
    scaled, rest = scaled * 2, rest * 2
    if rest >= d then
      scaled, rest = scaled + 1, rest - d
    end
    if e >= bit then
      e, rest = e - bit, rest + part
      if rest >= d then
        scaled, rest = scaled + 1, rest - d
      end
    end
    bit = bit / 2
  end
  return scaled
end

-- tokenBucketLook: the level (tokens, part), the moment up to which it is counted, and the state of the stored hash:
-- 0 none, 1 filled at this plan's rate, 2 filled at another one. A clock behind the stored moment refills nothing.
local function tokenBucketLook(key, a, now)
  local burst, d = tonumber(ARGV[a]), tonumber(ARGV[a + 2])
  local h = redis.call('HMGET', key, 'l', 'p', 't', 'n', 'd')
  if not h[1] then
    return burst, 0, now, 0
  end
  local tokens, part, at, state = tonumber(h[1]), tonumber(h[2]), tonumber(h[3]), 1
  local storedN, storedD = tonumber(h[4]), tonumber(h[5])
  if now > at then
    local turns = math.floor((now - at) / storedD)
    part = part + (now - at - turns * storedD) * storedN
    local more = math.floor(part / storedD)
    tokens, part, at = tokens + turns * storedN + more, part - more * storedD, now
  end
  if h[4] ~= ARGV[a + 1] or h[5] ~= ARGV[a + 2] then
    part, state = rescale(part, storedD, d), 2
  end
  if tokens >= burst then
    tokens, part = burst, 0
  end
  return tokens, part, at, state
end

-- tokenBucketAhead: how far the moment `at` is ahead of the clock, in microseconds; not further than it takes to fill
-- the level, rounded down, so that the bucket is full again within burst / rate.
local function tokenBucketAhead(a, now, tokens, part, at)
  if at <= now then
    return 0
  end
  local n, d = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local turns = math.floor(tokens / n)
  return math.min(at - now, turns * d + math.floor(((tokens - turns * n) * d + part) / n))
end
