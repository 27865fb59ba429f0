-- The counts are stored when something was granted, or they have to be stored anew. The key expires with the
-- window after the open one, in which what was granted now has a weight. Whether its expiry was taken away,
-- one request in sixty-four looks.
local write = units > 0 or state == 3
if write or state ~= 0 and now % 64 == 0 and redis.call('PTTL', key) == -1 then
  --@ whole
  local anew = write and state ~= 1
  if anew then
    local counted = whole(current + units)
    redis.call('HSET', key, 'i', whole(index), 'p', whole(previous), 'c', counted, 'w', whole(window))
  elseif write then
    redis.call('HINCRBY', key, 'c', granted == 1 and ARGV[1] or whole(units))
  end
  if anew or not write or now % 64 == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIREAT', key, whole((index + 2) * window / 1000))
  end
end
