-- What travels and what is kept, in bytes. Numbers are little-endian. Terms are
-- 4 bytes that name them (a digest, made by the coordinator) and a body of at
-- most 64, which is the longest value that a small hash keeps small.
local Whole, Calendar = 16, 32 -- flags beside the algorithm
local StateLayout = 1

-- unpackTerms reads terms, and keeps them as they were read: bytes.
local function unpackTerms(bytes, pos)
  local t = {}
  local kind
  local first = pos or 1
  t.ref, kind, t.p, t.q, t.burst, t.version, t.revision, t.ttl, t.share, pos = unpack('<c4BI7I5I7I7I7I7I2', bytes, pos)
  t.calendarStart, t.calendarEnd, t.calendarNext, t.length = 0, 0, 0, 0
  if kind >= Calendar then
    local length, following
    t.calendarStart, length, following, pos = unpack('<I7I7I7', bytes, pos)
    t.calendarEnd = t.calendarStart + length
    t.calendarNext = t.calendarEnd + following
    kind = kind - Calendar
  else
    t.length, pos = unpack('<I7', bytes, pos)
  end
  t.whole = kind >= Whole
  t.algorithm = kind % Whole
  t.bytes = sub(bytes, first, pos - 1)
  return t, pos
end

-- sameTerms is unpackTerms, which need not read again what came last: most ops are under one rule's terms. field and
-- body are how a group has them.
local sameTerms
do -- Lua has 200 names in one scope, and no more
local last
sameTerms = function(bytes)
  if not last or bytes ~= last.bytes then
    last = unpackTerms(bytes)
    last.field, last.body = 't' .. last.ref, sub(bytes, 5)
  end
  return last
end
end

-- An ask for one take and nothing else, of a ledger that its holder has no lease of, may also come as the holder, its name, the
-- seq, the debt, which is what was acknowledged, and the one cost: most are such, and to read zeros takes as long as all else.
--
-- unpackAsk reads an ask into a table that is the next one's, too: to make one takes as long as to read it.
local unpackAsk
do
local AskFormat = '<Bc8c8i8i8i8i8i8i8i8i8i8i8i8BB'
local ShortFormat, ShortSize = '<c8c8i8i8i8', 40
local a = {}
local none = {} -- of costs, as most asks have

local function unpackCosts(n, bytes, pos)
  if n == 0 then return none, pos end
  local list = {}
  for i = 1, n do list[i], pos = unpack('<i8', bytes, pos) end
  return list, pos
end

local function unpackShort(bytes)
  local cost
  a.holder, a.name, a.seq, a.debt, cost = unpack(ShortFormat, bytes)
  a.lease, a.spent, a.lag, a.lagFrac, a.debtAcked, a.raiseTo, a.ended, a.endedSpent, a.offer = 0, 0, 0, 0, a.debt, 0, 0, 0, 0
  a.takes, a.needs, a.ahead, a.keep, a.slots, a.long = {cost}, none, false, false, false, false
  return a
end

unpackAsk = function(bytes)
  if #bytes == ShortSize then return unpackShort(bytes) end
  local flags, takes, needs, pos
  flags, a.holder, a.name, a.seq, a.lease, a.spent, a.lag, a.lagFrac, a.debt, a.debtAcked, a.raiseTo, a.ended, a.endedSpent, a.offer,
    takes, needs, pos = unpack(AskFormat, bytes)
  a.takes, pos = unpackCosts(takes, bytes, pos)
  a.needs, pos = unpackCosts(needs, bytes, pos)
  a.ahead, a.keep, a.slots = flags % 2 == 1, flags % 4 >= 2, flags % 8 >= 4
  a.long = flags >= 8
  return a
end
end

-- packAnswer returns an answer, and what the caller should count: the tokens that were spent
-- over what was known to be granted, if any, and whether this op found that data was lost.
local AnswerFormat = '<Bi8i8I4I4i8i8i8i8i8i8i8i8i8i8i8i8i8i8i8'
local Short, SameTerms, DataLost = 8, 16, 64 -- flags

local function packAnswer(a, offered, over, found)
  local flags, tail = 0, ''
  if a.superseded then flags = flags + 1 end
  if a.stale then flags = flags + 2 end
  if a.ahead then flags = flags + 4 end
  if a.short then flags = flags + Short end
  if a.terms == offered then
    flags = flags + SameTerms
  elseif a.terms then
    flags, tail = flags + 32, a.terms.bytes
  end
  if found then flags = flags + DataLost end
  if over then flags, tail = flags + 128, pack('<i8', over) .. tail end
  local level, w = a.level or at(0), a.window or noWindow()
  return pack(AnswerFormat, flags, a.seq, a.lease or 0, a.takenLow or 0, a.takenHigh or 0,
    a.granted or 0, a.spent or 0, a.debt or 0, a.ttl or 0, level[1], level[2], w.left or 0, w.used, w.prev, w.refused or 0,
    w.wait or 0, a.others or 0, a.holders or 0, a.askAgain or 0, a.burst or 0) .. tail
end

-- A lease takes 80 bytes. Of most leases of a ledger an op needs to know only how much they have and until when, so that
-- is all that is read of them, and from says where they are: they are written as they were read. opened reads the rest of
-- one, which must come before it is changed. The tables are the next op's, too, as far as usual fleets need them:
-- release says that those of the last one are free.
local packLeases, unpackLeases, release
do
local pool, pooled, free = {}, 64, 1 -- free is the first that is
local LeaseFormat, LeaseSize = '<c8i8i8i8i8i8i8i8i8I4I4', 80
local OutlineFormat = '<c8xxxxxxxxi8i8xxxxxxxxi8i8'

packLeases = function(out, list)
  local raw, first, last -- of a run of leases that nobody has opened
  for i = 1, #list do
    local l = list[i]
    if raw and (l.raw ~= raw or l.from ~= last + 1) then
      out[#out + 1] = sub(raw, first, last)
      raw = nil
    end
    if l.raw then
      if not raw then raw, first = l.raw, l.from end
      last = l.from + LeaseSize - 1
    else
      out[#out + 1] = pack(LeaseFormat, l.holder, l.id, l.granted, l.spent, l.debt, l.exp, l.due, l.seq, l.version, l.takenLow, l.takenHigh)
    end
  end
  if raw then out[#out + 1] = sub(raw, first, last) end
end

release = function() free = 1 end

local function another()
  local l = pool[free]
  if l then
    free = free + 1
    return l
  end
  l = {holder = '', granted = 0, spent = 0, exp = 0, due = 0, raw = '', from = 0} -- of its size from the start
  if free <= pooled then
    pool[free], free = l, free + 1
  end
  return l
end

unpackLeases = function(n, bytes, pos)
  local list = {}
  for i = 1, n do
    local l = another()
    l.raw, l.from = bytes, pos
    l.holder, l.granted, l.spent, l.exp, l.due = unpack(OutlineFormat, bytes, pos)
    list[i], pos = l, pos + LeaseSize
  end
  return list, pos
end

opened = function(l)
  if l.raw then
    l.holder, l.id, l.granted, l.spent, l.debt, l.exp, l.due, l.seq, l.version, l.takenLow, l.takenHigh = unpack(LeaseFormat, l.raw, l.from)
    l.raw = nil
  end
  return l
end
end

local StateFormat = '<i8i8i8i8i8i8i8i8i8i8i8I4I4I4I4I4'

-- packState returns a ledger with all that it has, for a key of its own.
local function packState(s)
  local out = {
    pack('B', StateLayout), s.terms.bytes,
    pack(StateFormat, s.now, s.tat[1], s.tat[2], s.window.start, s.window.used, s.window.prev, s.ahead.start, s.ahead.used,
      s.slots.closed, s.slots.sum, s.slots.at, #s.log, #s.leases, #s.old, #s.ahead.leases, #s.slots.holdings),
  }
  for _, e in ipairs(s.log) do out[#out + 1] = pack('<i8i8', e[1], e[2]) end
  packLeases(out, s.leases)
  packLeases(out, s.old)
  packLeases(out, s.ahead.leases)
  for _, h in ipairs(s.slots.holdings) do
    out[#out + 1] = pack('<c8c8i8i8i8i8i8B', h.holder, h.name, h.slots, h.exp, h.seq, h.version, h.offer, h.fate)
  end
  return table.concat(out)
end

-- unpackState reads what packState wrote. Terms that are those offered, as they
-- mostly are, need not be read again.
local function unpackState(bytes, offered)
  local layout, pos = unpack('B', bytes)
  if layout ~= StateLayout then error('a ledger of layout ' .. layout .. ', written by another version of Leaseway', 0) end
  local terms, from = offered, pos
  pos = from + #offered.bytes
  if sub(bytes, from, pos - 1) ~= offered.bytes then terms, pos = unpackTerms(bytes, from) end
  local s = newState(terms)
  local w, ahead, slots = s.window, s.ahead, s.slots
  local entries, live, old, next, holdings
  s.now, s.tat[1], s.tat[2], w.start, w.used, w.prev, ahead.start, ahead.used, slots.closed, slots.sum, slots.at,
    entries, live, old, next, holdings, pos = unpack(StateFormat, bytes, pos)
  for i = 1, entries do
    local e = {}
    e[1], e[2], pos = unpack('<i8i8', bytes, pos)
    s.log[i] = e
  end
  s.leases, pos = unpackLeases(live, bytes, pos)
  s.old, pos = unpackLeases(old, bytes, pos)
  ahead.leases, pos = unpackLeases(next, bytes, pos)
  for _, l in ipairs(s.old) do opened(l) end
  for _, l in ipairs(ahead.leases) do opened(l) end
  for i = 1, holdings do
    local h = {}
    h.holder, h.name, h.slots, h.exp, h.seq, h.version, h.offer, h.fate, pos = unpack('<c8c8i8i8i8i8i8B', bytes, pos)
    slots.holdings[i] = h
  end
  return s
end

-- whole reports whether bytes are all of a ledger, as packState writes it, and not
-- one at rest, which is shorter than any of those.
local function whole(bytes) return #bytes > 64 end

-- restFormats are how a ledger at rest is written that comes down to the numbers a and b, by the bytes that these take:
-- 16 times those of a, and those of b. numberFormats are of the two alone.
local packNumbers, restNumbers
do
local restFormats, numberFormats, sizes = {}, {}, {0, 1, 2, 3, 4, 5, 7}
for i = 1, #sizes do
  for k = 1, #sizes do
    local m, n = sizes[i], sizes[k]
    local numbers = (m > 0 and 'I' .. m or '') .. (n > 0 and 'I' .. n or '')
    restFormats[m * 16 + n], numberFormats[m * 16 + n] = '<c4I7B' .. numbers, '<' .. numbers
  end
end

-- size returns how many bytes n takes, of those that are used.
local function size(n)
  if n == 0 then return 0 end
  if n < 2^8 then return 1 end
  if n < 2^16 then return 2 end
  if n < 2^24 then return 3 end
  if n < 2^32 then return 4 end
  if n < 2^40 then return 5 end
  return 7
end

-- packNumbers returns a ledger that comes down to the numbers a and b, which its
-- group keeps: the name of its terms, when it was written, and the two.
packNumbers = function(ref, now, a, b)
  local sizes = size(a) * 16 + size(b)
  if a == 0 then a = b end -- which comes in its place
  return pack(restFormats[sizes], ref, now, sizes, a, b)
end

-- restNumbers returns when a ledger at rest was written, and its two numbers.
restNumbers = function(bytes)
  local now, sizes, pos = unpack('<xxxxI7B', bytes)
  if sizes == 0 then return now, 0, 0 end
  local a, b = unpack(numberFormats[sizes], bytes, pos)
  if sizes < 16 then return now, 0, a end
  return now, a, sizes % 16 > 0 and b or 0
end
end

local function packRest(s, a, b) return packNumbers(s.terms.ref, s.now, a, b) end

-- restRef returns the name of the terms of a ledger at rest.
local function restRef(bytes) return sub(bytes, 1, 4) end

local function unpackRest(bytes, terms)
  local s = newState(terms)
  local a, b
  s.now, a, b = restNumbers(bytes)
  unpacked(s, a, b)
  return s
end
