-- What the scripts that Redis runs may use. `make check` holds scripts/*.lua to it.
--
-- The assembled scripts are checked, not scripts/parts: a part is a fragment whose functions another part calls, so only
-- the whole shows what is undefined, unused or shadowed. A function that a script carries and does not call is an error:
-- the script then names a part it does not need.

-- Any other name is an error. Missing on purpose: tostring (it keeps 14 digits of the 16 a time has), pairs (no order), the
-- string library but for format, and every library that a reply of integers has no use for. A script that needs one more
-- adds it here, where a review sees it.
stds.script = {
  read_globals = {
    'ARGV',
    'KEYS',
    'tonumber',
    math = { fields = { 'ceil', 'floor', 'max', 'min' } },
    redis = { fields = { 'call' } },
    string = { fields = { 'format' } },
  },
}

std = 'script'
include_files = { 'scripts/*.lua' }
max_line_length = 120
codes = true
