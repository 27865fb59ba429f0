-- Each key is decided by itself, so that one where something else is stored costs the others nothing. Where it
-- could not be, "granted" is -1, and nothing was charged; or -2, and it may have been, for a command failed that
-- may come behind another one that writes. Those that fail for what the server or the key is like fail as the first.
--   decide(key, count, filled)  puts its `fields` integers behind the first `filled` of the reply, and a 0 there
--                               before it writes anything
for i = 1, #KEYS do
  local count, filled = ARGV[arguments + i], (i - 1) * fields
  local decided, wrong = pcall(decide, KEYS[i], count == '1' and 1 or count + 0, filled)
  local late = false
  if not decided and reply[filled + 1] then
    wrong, late = type(wrong) == 'table' and wrong.err or wrong, true
    local first = { 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS', 'not an integer', 'non local key' }
    for j = 1, #first do
      late = late and not string.match(wrong, first[j])
    end
  end
  if not decided or reply[filled + 1] < 0 then
    reply[filled + 1] = late and -2 or -1
    for field = 2, fields do
      reply[filled + field] = 0
    end
  end
end
