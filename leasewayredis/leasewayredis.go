// Package leasewayredis limits straight on Redis, without a coordinator service:
// each process has a coordinator of its own, and Redis has the counts of all.
//
//	limiter, err := leasewayredis.Open(ctx, "redis://10.0.0.1:6379,10.0.0.2:6379", rules)
//
//	request ─▶ Limiter ─▶ lease in memory ─▶ decision
//	                          │ low or empty
//	                          ▼
//	                     coordinator ─▶ Redis, which other processes share
//
// The limits are those of all processes together, exactly, as with leaseway.Dial;
// what they share is Redis alone, and all of them must have the same rules. Dial
// suits fleets that are large, or that should not have the keys to Redis: there
// one service has the rules, gathers the calls and signs its answers.
//
// It is the only public package that links a driver. Its neighbour is leaseway,
// whose Limiter it returns; what decides is the same code.
package leasewayredis

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/redis"
	"github.com/leaseway/leaseway/rule"
)

const (
	// openWithin bounds how long one try to reach Redis takes.
	openWithin = 5 * time.Second
	// The pauses between tries in the background, before jitter.
	openAgain     = 100 * time.Millisecond
	openAgainMost = 5 * time.Second
)

// Open returns a Limiter whose leases come from the Redis at url:
//
//	redis://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…          one server, or some nodes of a cluster
//	rediss://…                                                the same over TLS
//	redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/MASTER     the master of this name, by its sentinels
//
// It needs Redis 7 or later. Processes share the limits if they have the same
// url, prefix (WithPrefix) and rules. While Redis does not answer, leases are
// spent to their end, and then each rule's onUnavailable decides; WithLateRedis
// has a process start like that. Close gives the leases back and leaves the counts in Redis.
//
// The error is a *leaseway.Error: CodeInvalid for what cannot be used as given, CodeUnavailable
// if Redis does not answer within 5 s or ctx.
func Open(ctx context.Context, url string, rules *rule.Set, opts ...Option) (*leaseway.Limiter, error) {
	if rules == nil {
		return nil, &leaseway.Error{Code: leaseway.CodeInvalid, Message: "no rules", Hint: "parse a document with rule.Parse"}
	}

	s, o, err := begin(url, opts)
	if err != nil {
		return nil, err
	}

	if _, err := s.accord.Apply(rules); err != nil { //nolint:contextcheck // before Join it asks nobody
		return nil, unfit(err)
	}

	return s.open(ctx, o)
}

func unfit(err error) error {
	return &leaseway.Error{Code: leaseway.CodeInvalid, Message: "these rules cannot be put in force", Err: err}
}

// OpenFile is Open with the rule document in the file at path, which is read again
// every two seconds: a changed one takes effect without a restart. A bad file is an error
// here, with all that is wrong with it; later it is logged, and the last good rules stay in force.
func OpenFile(ctx context.Context, url, path string, opts ...Option) (*leaseway.Limiter, error) {
	s, o, err := begin(url, opts)
	if err != nil {
		return nil, err
	}

	s.file = &rulesFile{path: path, apply: s.accord.Apply, log: s.log}

	if err := s.file.read(); err != nil {
		return nil, &leaseway.Error{
			Code: leaseway.CodeInvalid, Message: "the rules cannot be put in force", Err: err,
			Hint: "leaseway validate checks a rule document",
		}
	}

	return s.open(ctx, o)
}

// begin reads what Open was given, without asking anybody.
func begin(url string, opts []Option) (*source, *options, error) {
	config, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, &leaseway.Error{Code: leaseway.CodeInvalid, Message: "this names no Redis", Err: err}
	}

	o := gather(config, opts)

	if err := o.check(); err != nil {
		return nil, nil, err
	}

	book := coordinator.NewBook(nil)

	return &source{
		book: book, accord: coordinator.NewAccord(book, nil, o.logger), config: *config, log: o.logger,
	}, o, nil
}

// open reaches Redis, or leaves that to the background, and puts a Limiter before it.
func (s *source) open(ctx context.Context, o *options) (*leaseway.Limiter, error) {
	err := s.connect(ctx)
	if err != nil && !o.late {
		return nil, unusable(ctx, &s.config, err)
	}

	// The work lives until Close, which a start that was given up calls as well.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop

	if err != nil {
		// The rules are in force from here on, and numbered as by others when Redis says how.
		if err := s.accord.Join(ctx, nil); err != nil {
			return nil, errors.Join(unfit(err), s.close(ctx))
		}

		s.log.Warn("Redis cannot be reached yet: each rule's onUnavailable decides until it can", "error", err)
		s.work.Go(func() { s.reach(background) })
	} else {
		s.work.Go(func() { s.run(background) })
	}

	if s.file != nil {
		s.work.Go(func() { s.file.follow(background) })
	}

	limiter, err := leaseway.Over(ctx, s, append(o.limiter, leaseway.WithLogger(o.logger), leaseway.WithRelease(s.close))...)
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}

	return limiter, nil
}

// connect tries once to reach Redis.
func (s *source) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()

	config := s.config
	config.Logger = s.log

	kept, err := redis.New(ctx, config)
	if err != nil {
		return err
	}

	c, err := coordinator.New(coordinator.Config{Store: kept, Book: s.book, Logger: s.log})
	if err != nil {
		return errors.Join(err, kept.Close(ctx))
	}

	if err := s.accord.Join(ctx, kept); err != nil {
		return errors.Join(err, kept.Close(ctx))
	}

	s.reached.Store(&engine{store: kept, coordinator: c})

	return nil
}

// reach tries until it works, and then does what there is to do with it.
func (s *source) reach(ctx context.Context) {
	for pause := openAgain; ; pause = min(2*pause, openAgainMost) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}

		if err := s.connect(ctx); err == nil {
			s.log.Info("Redis was reached")
			s.run(ctx)

			return
		}
	}
}

// unusable says what to do when Redis cannot be used.
func unusable(ctx context.Context, config *redis.Config, err error) error {
	e := &leaseway.Error{
		Code: leaseway.CodeInvalid, Message: "Redis cannot be used as it was told", Err: err,
		Hint: "check the URL, user, password and certificates; leaseway doctor --store says more",
	}

	switch redis.Diagnose(ctx, config, err) {
	case redis.TroubleNobody, redis.TroubleSilent, redis.TroubleLoading, redis.TroubleDown, redis.TroubleEncrypted, redis.TroubleOther:
		e.Code, e.Message = leaseway.CodeUnavailable, "Redis does not answer"
		e.Hint = "check that it runs there; with WithLateRedis a process starts without it; leaseway doctor --store says more"
	case redis.TroublePassword, redis.TroubleNoPassword, redis.TroubleRights, redis.TroublePlaintext, redis.TroubleAuthority,
		redis.TroubleName, redis.TroubleCertificate, redis.TroubleMaster, redis.TroubleSentinel:
	}

	return e
}
