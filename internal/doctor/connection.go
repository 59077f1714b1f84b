package doctor

import (
	"context"
	"strings"

	"github.com/leaseway/leaseway/internal/store/redis"
)

// advice is what a trouble is in words, "" for the error's own, and what to do about it.
type advice struct{ says, fix string }

func advices() map[redis.Trouble]advice {
	return map[redis.Trouble]advice{
		redis.TroubleOther: {"", "check --store, and the log of Redis"},
		redis.TroublePassword: {
			"it does not know this user with this password", "check the user in --store and the password in --store-password-file",
		},
		redis.TroubleNoPassword: {"it wants a password", "add --store-password-file, and the user to --store redis://USER@HOST:PORT"},
		redis.TroubleRights:     {"", "give the user the rights that the documentation lists (ACL SETUSER)"},
		redis.TroubleNobody:     {"nothing listens there", "start Redis, or name the host and port where it is"},
		redis.TroubleSilent:     {"nobody answers in time", "check the address, and what filters packets on the way"},
		redis.TroublePlaintext:  {"it does not speak TLS at this port", "write --store redis://…, or the port of its tls-port"},
		redis.TroubleEncrypted:  {"it closes the connection, as one does that wants TLS", "write --store rediss://…"},
		redis.TroubleAuthority: {
			"nobody that is trusted vouches for its certificate", "give --store-ca the certificate of its authority",
		},
		redis.TroubleName: {"its certificate is for another name", "name it in --store as its certificate does"},
		redis.TroubleCertificate: {
			"it wants a certificate that it trusts (its tls-auth-clients is on)",
			"add --store-cert and --store-key, by an authority of its tls-ca-cert-file",
		},
		redis.TroubleMaster: {
			"these sentinels know no master of that name",
			"write the name behind sentinel monitor in their configuration: redis+sentinel://HOST:PORT,…/MASTER",
		},
		redis.TroubleSentinel: {
			"it is no sentinel", "write the port of a sentinel (26379 unless said), or --store redis://HOST:PORT for a server or a cluster",
		},
		redis.TroubleLoading: {"it is still reading its data from the disk", "wait"},
		redis.TroubleDown: {
			"its cluster is down: not all slots are served", "start the nodes that are missing: redis-cli --cluster check says which",
		},
	}
}

// noConnection says why Redis cannot be used at all.
func noConnection(ctx context.Context, config *redis.Config, err error) Finding {
	f := Finding{State: Bad, Check: checkConnection, Where: strings.Join(config.Addresses, ","), Says: err.Error()}
	trouble := redis.Diagnose(ctx, config, err)

	a := advices()[trouble]
	f.Fix = a.fix

	if a.says != "" {
		f.Says = a.says
	}

	if trouble == redis.TroubleAuthority || trouble == redis.TroubleName {
		f.Says += ": " + cause(err)
	}

	return f
}

// cause is the end of a chain of errors, where the reason is.
func cause(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "x509: "); i >= 0 {
		return text[i+len("x509: "):]
	}

	return text
}
