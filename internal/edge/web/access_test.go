// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/web"
	"podfit.dev/podfit/test/webtest"
)

// reviewer is a fake API server. Tokens are names of users.
type reviewer struct {
	mu       sync.Mutex
	may      map[string][]string // namespaces by user; "" means all
	delay    time.Duration       // of each answer, which it sends even if the request has ended
	err      error
	tokens   int // TokenReviews
	rights   int // SubjectAccessReviews
	running  int
	parallel int // most concurrent reviews
}

func (r *reviewer) wait(ctx context.Context, late bool) error {
	r.mu.Lock()
	r.running++
	r.parallel = max(r.parallel, r.running)
	delay, err := r.delay, r.err
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			if !late {
				return ctx.Err()
			}
		}
	}
	return err
}

func (r *reviewer) Authenticate(ctx context.Context, token string) (overview.User, bool, error) {
	r.mu.Lock()
	r.tokens++
	r.mu.Unlock()
	if err := r.wait(ctx, true); err != nil {
		return overview.User{}, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.may[token]
	return overview.User{Name: token}, ok, nil
}

func (r *reviewer) MayList(ctx context.Context, u *overview.User, namespace string) (bool, error) {
	r.mu.Lock()
	r.rights++
	r.mu.Unlock()
	if err := r.wait(ctx, false); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	allowed := r.may[u.Name]
	return slices.Contains(allowed, namespace) || slices.Contains(allowed, ""), nil
}

func (r *reviewer) set(delay time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = delay
	r.err = err
}

func newReviewer() *reviewer {
	return &reviewer{may: map[string][]string{"admin": {""}, "shopkeeper": {"shop"}, "nobody": {}, "both": {"shop", "pay"}}}
}

func guarded(source *webtest.Source, r *reviewer, change ...func(*web.AccessConfig)) http.Handler {
	c := web.AccessConfig{Mode: web.Token, Reviewer: r, Namespaces: source}
	for _, f := range change {
		f(&c)
	}
	return web.New(web.Config{Source: source, Access: web.NewAccess(c)})
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func password(token string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth("anyone", token) }
}

func TestAccess_token_statusFollowsReview(t *testing.T) {
	h := guarded(webtest.Small(), newReviewer())
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"no token", func(*http.Request) {}, 401},
		{"empty token", bearer(""), 401},
		{"other scheme", func(r *http.Request) { r.Header.Set("Authorization", "Negotiate admin") }, 401},
		{"refused token", bearer("stranger"), 401},
		{"refused password", password("stranger"), 401},
		{"token of 1 MB", bearer(strings.Repeat("a", 1<<20)), 401},
		{"token without rights", bearer("nobody"), 403},
		{"token", bearer("admin"), 200},
		{"lower case scheme", func(r *http.Request) { r.Header.Set("Authorization", "bearer admin") }, 200},
		{"password", password("shopkeeper"), 200},
		{"headers of a proxy", func(r *http.Request) { r.Header.Set("X-Forwarded-User", "admin") }, 401},
		{"user of impersonation", func(r *http.Request) { r.Header.Set("Impersonate-User", "admin") }, 401},
	} {
		r := get(h, "GET", "/", c.change)
		if r.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.want)
		}
		if (r.Header.Get("WWW-Authenticate") != "") != (c.want == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", c.name, r.Header.Get("WWW-Authenticate"))
		}
	}
	if got := get(h, "GET", "/workloads").StatusCode; got != 401 {
		t.Errorf("page without token: status %d", got)
	}
}

// While the cluster is still read, a viewer with rights in one namespace is not refused: podfit does not know the namespaces yet.
func TestAccess_clusterIsStillRead_isUnavailableAndNotForbidden(t *testing.T) {
	source := webtest.Small()
	source.Load("pods")
	h := guarded(source, newReviewer())
	for token, want := range map[string]int{"shopkeeper": 503, "nobody": 503, "admin": 200, "stranger": 401} {
		if got := get(h, "GET", "/", bearer(token)).StatusCode; got != want {
			t.Errorf("%s: status %d, want %d", token, got, want)
		}
	}
}

// A viewer sees the rows, decisions and totals of its namespaces, and nothing of others, on every page and in every format.
func TestAccess_rightsInSomeNamespaces_otherNamespacesAreInvisible(t *testing.T) {
	h := guarded(webtest.Small(), newReviewer())
	foreign := []string{"ledger", "feature-store", "indexer", "gateway", "front", "node-exporter", "playground", "general", "Forecast of capacity", "capacityPlan", "Order nodes", "orderNodes"}
	for _, path := range append(pages, "/activity?action=evict", "/workloads?namespace=pay") {
		for _, format := range []string{"", "format=json", "save=1"} {
			target := path
			if format != "" {
				separator := "?"
				if strings.Contains(path, "?") {
					separator = "&"
				}
				target += separator + format
			}
			r := get(h, "GET", target, bearer("shopkeeper"))
			text := body(t, r)
			if strings.HasPrefix(path, "/workloads/") && !strings.HasPrefix(path, "/workloads/shop/") {
				if r.StatusCode != http.StatusNotFound {
					t.Errorf("%s: status %d, want 404", target, r.StatusCode)
				}
				continue
			}
			for _, name := range foreign {
				if strings.Contains(text, ">"+name) || strings.Contains(text, "\""+name+"\"") || strings.Contains(text, name+"-") {
					t.Errorf("%s shows %s", target, name)
				}
			}
		}
	}
	contains(t, "the nodes", body(t, get(h, "GET", "/nodes", bearer("shopkeeper"))), "users who may list VerticalPodAutoscalers and pods in all namespaces")
	var all, some struct {
		Workloads                  int
		RequestsFreedMoneyPerMonth float64
		NodesThatCouldGo           int
		Totals                     []struct{ Requested, Capacity float64 }
	}
	decode(t, get(h, "GET", "/?format=json", bearer("admin")), &all)
	decode(t, get(h, "GET", "/?format=json", bearer("shopkeeper")), &some)
	if all.NodesThatCouldGo == 0 || some.NodesThatCouldGo != 0 || some.RequestsFreedMoneyPerMonth >= all.RequestsFreedMoneyPerMonth || all.RequestsFreedMoneyPerMonth == 0 {
		t.Errorf("admin sees %+v, shopkeeper %+v", all, some)
	}
	if all.Workloads != 10 || some.Workloads != 2 || some.Totals[0].Requested >= all.Totals[0].Requested || some.Totals[0].Capacity != 0 || all.Totals[0].Capacity == 0 {
		t.Errorf("admin sees %+v, shopkeeper %+v", all, some)
	}
}

func decode(t *testing.T, r *http.Response, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body(t, r)), into); err != nil {
		t.Fatal(err)
	}
}

// An unknown answer is no permission: neither an error, nor a timeout, nor an answer after the timeout.
func TestAccess_reviewFailsOrIsSlowOrLate_requestIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		delay time.Duration
		err   error
		want  int
	}{
		"in time": {4 * time.Second / 2, nil, 200}, "error": {0, errors.New("connection refused"), 503}, "slow": {time.Hour, nil, 503}, "late": {5*time.Second + 1, nil, 503},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReviewer()
			r.set(c.delay, c.err)
			h := guarded(webtest.Small(), r)
			began := time.Now()
			if got := get(h, "GET", "/", bearer("admin")).StatusCode; got != c.want {
				t.Errorf("%s: status %d, want %d", name, got, c.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s: the answer took %v", name, took)
			}
			r.set(0, nil)
			if got := get(h, "GET", "/", bearer("admin")).StatusCode; got != 200 {
				t.Errorf("%s: status %d after the API server answers again", name, got)
			}
		})
	}
}

// Rights that are withdrawn end after a minute, and refused tokens are not asked about for every request.
func TestAccess_rightsAreWithdrawn_viewerLosesThemWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviewer()
		h := guarded(webtest.Small(), r)
		for range 100 {
			if got := get(h, "GET", "/", bearer("both")).StatusCode; got != 200 {
				t.Fatalf("status %d", got)
			}
			get(h, "GET", "/", bearer("stranger"))
		}
		if r.tokens != 2 || r.rights > 20 {
			t.Errorf("100 requests of two viewers caused %d TokenReviews and %d SubjectAccessReviews", r.tokens, r.rights)
		}
		r.mu.Lock()
		r.may["both"] = nil
		delete(r.may, "admin")
		r.mu.Unlock()
		time.Sleep(61 * time.Second)
		if got := get(h, "GET", "/", bearer("both")).StatusCode; got != 403 {
			t.Errorf("status %d a minute after the rights were withdrawn, want 403", got)
		}
	})
}

// Many invalid tokens neither fill the memory nor start unlimited reviews.
func TestAccess_manyTokens_reviewsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReviewer()
		r.set(time.Second, nil)
		h := guarded(webtest.Small(), r)
		var requests sync.WaitGroup
		for i := range 200 {
			requests.Go(func() { get(h, "GET", "/", bearer(fmt.Sprint("token", i))) })
		}
		requests.Wait()
		if r.parallel > 16 {
			t.Errorf("%d reviews at the same time", r.parallel)
		}
	})
}

func TestAccess_proxyHeaders_onlyTrustedProxyCounts(t *testing.T) {
	source := webtest.Small()
	h := guarded(source, newReviewer(), func(c *web.AccessConfig) {
		c.Mode = web.Header
		c.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("::1/128")}
	})
	for _, c := range []struct {
		name, remote string
		headers      http.Header
		want         int
	}{
		{"trusted", "10.0.0.7:1234", http.Header{"X-Forwarded-User": {"admin"}}, 200},
		{"trusted, mapped address", "[::ffff:10.0.0.7]:1234", http.Header{"X-Forwarded-User": {"admin"}}, 200},
		{"trusted, some namespaces", "[::1]:1234", http.Header{"X-Forwarded-User": {"shopkeeper"}, "X-Forwarded-Groups": {"a, b"}}, 200},
		{"without user", "10.0.0.7:1234", nil, 401},
		{"two users", "10.0.0.7:1234", http.Header{"X-Forwarded-User": {"nobody", "admin"}}, 401},
		{"user of the system", "10.0.0.7:1234", http.Header{"X-Forwarded-User": {"system:admin"}}, 401},
		{"without rights", "10.0.0.7:1234", http.Header{"X-Forwarded-User": {"nobody"}}, 403},
		{"other address", "10.0.1.7:1234", http.Header{"X-Forwarded-User": {"admin"}}, 403},
		{"no address", "pipe", http.Header{"X-Forwarded-User": {"admin"}}, 403},
		{"token is not enough", "10.0.1.7:1234", http.Header{"Authorization": {"Bearer admin"}}, 403},
	} {
		r := get(h, "GET", "/", func(r *http.Request) {
			r.RemoteAddr = c.remote
			for name, values := range c.headers {
				r.Header[name] = values
			}
		})
		if r.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.want)
		}
	}
}

// groupReviewer records the groups of the last review.
type groupReviewer struct{ groups []string }

func (g *groupReviewer) Authenticate(context.Context, string) (overview.User, bool, error) {
	return overview.User{}, false, nil
}

func (g *groupReviewer) MayList(_ context.Context, u *overview.User, _ string) (bool, error) {
	g.groups = u.Groups
	return true, nil
}

func TestAccess_proxyNamesGroupsOfTheSystem_areIgnored(t *testing.T) {
	g := new(groupReviewer)
	h := web.New(web.Config{Source: webtest.Small(), Access: web.NewAccess(web.AccessConfig{
		Mode: web.Header, Reviewer: g, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	})})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	r.Header.Set("X-Forwarded-User", "ann")
	r.Header.Set("X-Forwarded-Groups", "system:masters,dev,, ops ,system:nodes")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if want := []string{"system:authenticated", "dev", "ops"}; w.Code != 200 || !slices.Equal(g.groups, want) {
		t.Errorf("status %d, groups %q, want %q", w.Code, g.groups, want)
	}
}

// scopedReviewer is an API server with tokens of one user. A scope is a part of the user that only Extra has, as in OpenShift.
type scopedReviewer struct{}

func (scopedReviewer) Authenticate(_ context.Context, token string) (overview.User, bool, error) {
	return overview.User{Name: "ann", Extra: map[string][]string{"scopes": {token}}}, true, nil
}

func (scopedReviewer) MayList(_ context.Context, u *overview.User, _ string) (bool, error) {
	return u.Extra["scopes"][0] == "full", nil
}

// A token of a user that may do less than another token of the same user does not get the rights of the other one.
func TestAccess_tokensOfOneUserHaveOtherScopes_eachHasItsOwnRights(t *testing.T) {
	source := webtest.Small()
	h := web.New(web.Config{Source: source, Access: web.NewAccess(web.AccessConfig{Mode: web.Token, Reviewer: scopedReviewer{}, Namespaces: source})})
	for _, c := range []struct {
		token string
		want  int
	}{{"full", 200}, {"none", 403}, {"full", 200}} {
		if got := get(h, "GET", "/", bearer(c.token)).StatusCode; got != c.want {
			t.Errorf("token with scope %s: status %d, want %d", c.token, got, c.want)
		}
	}
}

// manyNamespaces are those of a large cluster.
type manyNamespaces []string

func (n manyNamespaces) Namespaces() ([]string, bool) { return n, true }

// In a cluster with so many namespaces that their reviews take longer than a request may wait, each attempt continues where the one before ended.
func TestAccess_reviewsOfAllNamespacesTakeLong_laterAttemptsContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names manyNamespaces
		for i := range 800 {
			names = append(names, fmt.Sprint("team-", i))
		}
		r := newReviewer()
		r.may["shopkeeper"] = []string{"shop", "team-799"}
		r.set(100*time.Millisecond, nil) // 400 answers in 5 s
		h := guarded(webtest.Small(), r, func(c *web.AccessConfig) { c.Namespaces = names })
		var got []int
		for range 4 {
			got = append(got, get(h, "GET", "/", bearer("shopkeeper")).StatusCode)
		}
		if got[0] != 503 || got[3] != 200 {
			t.Errorf("status %v, want 200 after some attempts", got)
		}
	})
}
