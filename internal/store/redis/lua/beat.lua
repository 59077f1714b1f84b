-- Notes that holders live, and says how many do and whose data this is.
--
-- KEYS: the holders, a sorted set by the instant until which each lives, and the
-- id of the data. ARGV: an id in case there is none, how long an id is kept (ms),
-- how long the holders live (µs), how many may, the shortest time to live of the
-- set (ms), the time (µs) or nothing for Redis's own, and the holders.
local holders, id = KEYS[1], KEYS[2]
local ttl, most, least = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local now = tonumber(ARGV[6])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

redis.call('SET', id, ARGV[1], 'NX', 'PX', ARGV[2])
redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now))

local refused = 0
for i = 7, #ARGV do
  if redis.call('ZCARD', holders) < most or redis.call('ZSCORE', holders, ARGV[i]) then
    redis.call('ZADD', holders, string.format('%.0f', now + ttl), ARGV[i])
  else
    refused = refused + 1
  end
end

redis.call('ZREMRANGEBYSCORE', holders, '-inf', string.format('%.0f', now)) -- a ttl of 0
local ms = math.max(least, math.ceil(ttl / 1000))
if redis.call('PTTL', holders) < ms then redis.call('PEXPIRE', holders, ms) end

return {redis.call('ZCARD', holders), refused, redis.call('GET', id), redis.call('PTTL', id)}
