-- 2^52, rounded down to a multiple of n.
local modulus = 4503599627370496 - 4503599627370496 % n
