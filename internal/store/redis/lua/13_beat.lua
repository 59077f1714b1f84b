-- beat notes that holders live, and says how many do and whose data this is.
--
-- KEYS: the holders, a sorted set by the instant until which each lives, and the
-- id of the data; without the id while their slot is on its way to another node, which
-- then is not told of. ARGV: the id that the caller knows, in case it was lost, how long an id is kept (ms),
-- how long the holders live (µs), how many may, the shortest time to live of the
-- set (ms), the time (µs) or '', and the holders.
local function beat(keys, argv)
  bind()
  local holders, id = keys[1], keys[2]
  local ttl, most, least, now = tonumber(argv[3]), tonumber(argv[4]), tonumber(argv[5]), timeOf(argv[6])
  local function score(t) return string.format('%.0f', t) end

  if id then call('SET', id, argv[1], 'NX', 'PX', argv[2]) end
  call('ZREMRANGEBYSCORE', holders, '-inf', score(now))
  local refused = 0
  for i = 7, #argv do
    if call('ZCARD', holders) < most or call('ZSCORE', holders, argv[i]) then
      call('ZADD', holders, score(now + ttl), argv[i])
    else
      refused = refused + 1
    end
  end
  call('ZREMRANGEBYSCORE', holders, '-inf', score(now)) -- a ttl of 0
  local ms = max(least, ceil(ttl / 1000))
  if call('PTTL', holders) < ms then call('PEXPIRE', holders, ms) end
  local live = call('ZCARD', holders)
  if not id then return {live, refused, argv[1], tonumber(argv[2])} end
  return {live, refused, call('GET', id), call('PTTL', id)}
end
