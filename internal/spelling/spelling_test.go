package spelling

import "testing"

func TestClosest(t *testing.T) {
	t.Parallel()

	names := []string{"list", "get", "listen", "grpc-listen", "delete", "report-a", "report-b"}

	for _, row := range []struct{ got, want string }{
		{"lst", "list"}, {"List", "list"}, {"lisen", "listen"}, {"gprc-listen", "grpc-listen"}, {"gt", "get"}, {"dlete", "delete"},
		{"lsit", "list"}, {"xyz", ""}, {"", ""}, {"list", "list"},
		{"grpc", "grpc-listen"}, {"GRPC-", "grpc-listen"}, {"rpc", ""}, {"l", ""}, {"repo", ""},
	} {
		if got := Closest(row.got, names); got != row.want {
			t.Errorf("%q was taken for %q, want %q", row.got, got, row.want)
		}
	}
}
