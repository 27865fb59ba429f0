-- Each key is decided by itself, so that one where something else is stored costs the others nothing. Where it
-- could not be, "granted" is -1, and nothing was charged; or -2, and it may have been, for the user may not run a
-- command that comes late.
--   decide(key, count, filled)  puts its `fields` integers behind the first `filled` of the reply, and a 0 there
--                               before it writes anything
for i = 1, #KEYS do
  local count, filled = ARGV[arguments + i], (i - 1) * fields
  local decided, wrong = pcall(decide, KEYS[i], count == '1' and 1 or count + 0, filled)
  if not decided then
    local text, granted = type(wrong) == 'table' and wrong.err or wrong, -1
    if reply[filled + 1] and (string.match(text, 'ACL failure') or string.match(text, 'user executing')) then
      granted = -2
    end
    reply[filled + 1] = granted
    for field = 2, fields do
      reply[filled + field] = 0
    end
  end
end
