-- The shortest way through an op: one take, and nothing else, from a bucket that
-- nobody leases and that has enough. Keys that are seen seldom ask so, which are
-- most of those that Redis hears of. It does what load, apply and save would do,
-- to the last bit, with as few commands as do, and without their tables; for all
-- else it is nil, and nothing was done.
--
-- Some of what it would ask Redis about each time is in the group's head: an instant until which
-- the group lives at least, and when data of its hash slot was lost, 0 for never, both µs. A later loss takes
-- the group, too. Groups of ledgers that ask in other ways have none.

local take
do
local PlainFormat = '<Bxxxxxxxxxxxxxxxxxxxxxxxxi8i8xxxxxxxxxxxxxxxxi8i8i8i8xxxxxxxxxxxxxxxxBBi8'
local PlainSize = 1 + 13 * 8 + 2 + 8
local HeadFormat = '<I7I7'
local HeadSlack = 1000 -- ms, by which the clock of the slot's next node may be ahead

-- plain returns the cost of an ask that is no more than one take.
local function plain(ask)
  if #ask ~= PlainSize then return nil end
  local flags, lease, spent, debt, acked, raiseTo, ended, takes, _, cost = unpack(PlainFormat, ask)
  if flags ~= 0 or lease ~= 0 or spent ~= 0 or raiseTo ~= 0 or ended ~= 0 or debt ~= acked or takes ~= 1 or cost < 1 then return nil end
  return cost
end

-- refilled reports whether a bucket that was empty at loss is full at now.
local function refilled(t, now, loss) return (now - loss) * t.q >= t.burst * t.p end

-- levelOf returns how full the bucket is that the group has as rest, µs and 1/q µs from now; nil where it takes more to say.
local function levelOf(t, now, rest)
  if whole(rest) or restRef(rest) ~= t.ref then return nil end
  local written, micros, frac = restNumbers(rest)
  if written > now then return nil end
  if written + micros < now then return 0, 0 end
  return written + micros - now, frac
end

-- begin puts the terms into the group, with the first ledger under them.
local function begin(group, t, fields, life)
  redis.call('HSET', group, t.field, t.body, Head, fields.head, fields.name, fields.kept)
  if redis.call('HLEN', group) == 3 then
    redis.call('PEXPIRE', group, life) -- it is new, and has no end yet, which would be longer than any
  else
    redis.call('PEXPIRE', group, life, 'GT')
    renew({group = group, name = fields.name, offered = t}, fields.now, t.field)
  end
end

-- take answers the ask if it is such a one, under the terms t.
take = function(keys, argv, now, t)
  local cost = t.algorithm == TokenBucket and plain(argv[3])
  if not cost then return nil end
  local group, name = keys[1], argv[1]
  local found = redis.call('HMGET', group, name, t.field, Head)
  local rest, body, head = found[1], found[2], found[3]
  if body and body ~= t.body then return nil end -- others have the same name

  local lives, loss = 0, 0
  if head then
    lives, loss = unpack(HeadFormat, head)
  else
    local mark = redis.call('GET', keys[3])
    if not mark then return nil end
    loss = unpack('<i8', mark)
  end
  local micros, frac = 0, 0
  if rest then
    if not body then return nil end
    micros, frac = levelOf(t, now, rest)
    if not micros then return nil end
  elseif redis.call('GET', keys[2]) or loss > 0 and not t.whole and not refilled(t, now, loss) then
    return nil
  end

  local used = micros * t.q + frac + cost * t.p
  if used > t.burst * t.p then return nil end
  micros = floor(used / t.q)
  frac = used - micros * t.q
  local least = tonumber(argv[4] or 1)
  local ms = max(least, ceil((micros + (frac > 0 and 1 or 0)) / 1000))
  local kept = packNumbers(t.ref, now, micros, frac)
  if body and lives >= now + ms * 1000 and not argv[5] then -- a caller's clock may have stepped back since
    redis.call('HSET', group, name, kept)
  else
    local life = eased(t, ms)
    head = pack(HeadFormat, now + (life - HeadSlack) * 1000, loss)
    if body then
      redis.call('HSET', group, Head, head, name, kept)
      redis.call('PEXPIRE', group, life, 'GT')
    else
      begin(group, t, {head = head, name = name, kept = kept, now = now}, life)
    end
  end
  if body and not rest then sweep({group = group, name = name, offered = t}, now) end
  return pack('<i8i8', micros, frac) -- its caller knows the rest
end
end

-- op has KEYS group, held, mark, and ARGV the ledger's name in the group, terms and ask; then, where time is not
-- Redis's own, the shortest time to live of a key (ms), and the time (µs).
local function op(keys, argv)
  bind()
  local now, offered = timeOf(argv[5]), sameTerms(argv[2])
  local short = take(keys, argv, now, offered)
  if short then return short end
  local at = {group = keys[1], held = keys[2], mark = keys[3], name = argv[1], least = tonumber(argv[4] or 1), offered = offered}
  release()
  local s, was = load(at, now, redis.call('GET', at.held))
  local answer = apply(s, now, offered, unpackAsk(argv[3]))
  save(at, s, was)
  return packAnswer(answer, offered, s.over, at.found)
end
