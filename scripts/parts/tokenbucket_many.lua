-- tokenbucket_many.lua: of each key, grant as many of `count` requests of `cost` tokens each as the bucket holds.
-- KEYS:  keys
-- ARGV:  cost tokens; burst tokens; n tokens; d us; plan "burst n d"; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining tokens; part 1/d tokens; ahead us;
--        now us; refunded tokens
-- Cost:  O(keys)
-- Uses:  HMGET HSET PEXPIREAT PTTL TIME
local cost, burst, n, d, plan = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5]
local reply, fields, arguments = {}, 6, 5
--@ now
--@ whole

local function decide(key, count, filled)
  --@ tokenbucket_look
  local room = tokens
  --@ fit
  reply[filled + 1] = 0
  tokens = tokens - units
  --@ tokenbucket_ahead
  local write, anew = units > 0 or state == 2 or at > now + ahead, state ~= 1
  --@ tokenbucket_charge
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, tokens, part
  reply[filled + 4], reply[filled + 5], reply[filled + 6] = ahead, now, refunded
end
--@ many
return reply
