-- What the scripts that Redis runs may use. `make check` holds scripts/*.lua to it.
--
-- The assembled scripts are checked, not scripts/parts: a part is a fragment that reads what another part sets, so only the
-- whole shows what is undefined, unused or shadowed. A peek finds more than it needs, what a charge would have read.

-- Any other name is an error. Missing on purpose: tostring (it keeps 14 digits of the 16 a time has), pairs (no order), the
-- most of the string library, and every library that a reply of integers has no use for. A script that needs one more adds
-- it here, where a review sees it.
stds.script = {
  read_globals = {
    'ARGV',
    'KEYS',
    'pcall',
    'type',
    math = { fields = { 'max', 'min' } },
    redis = { fields = { 'call' } },
    string = { fields = { 'format', 'match', 'sub' } },
  },
}

std = 'script'
include_files = { 'scripts/*.lua' }
max_line_length = 122
codes = true
files['scripts/*_peek.lua'] = { ignore = { '231', '311' } }
