package admin

// Role says how much somebody may do; each may do what those before it may.
type Role uint8

const (
	// Nobody may do nothing.
	Nobody Role = iota
	// Viewer reads.
	Viewer
	// Operator changes rules, overrides and switches, and looks after budgets.
	Operator
	// Admin changes settings and tokens, too.
	Admin
)

// String is the role as the API writes it.
func (r Role) String() string {
	if words := roleWords(); int(r) < len(words) {
		return words[r]
	}

	return "unknown"
}

// roleWords are the words of the API, by role.
func roleWords() []string { return []string{"nobody", "viewer", "operator", "admin"} }
