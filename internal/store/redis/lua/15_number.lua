-- number replaces what coordinators have agreed on, how their rules are numbered,
-- if that is still what the caller has read. It returns 1 if it is replaced.
--
-- KEYS: a hash of its own. ARGV: the head that was read, '' for none, the new head, what
-- is agreed of each rule, and how long that is kept (ms).
local function number(keys, argv)
  bind()
  if (call('HGET', keys[1], 'head') or '') ~= argv[1] then return 0 end
  call('HSET', keys[1], 'head', argv[2], 'rules', argv[3])
  call('PEXPIRE', keys[1], argv[4])
  return 1
end
