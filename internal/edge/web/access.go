// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/cache"

	"podfit.dev/podfit/internal/core/overview"
)

// A Mode is how viewers are authenticated.
type Mode string

// The modes.
const (
	None   Mode = "none"   // everyone who can connect sees everything that podfit may read
	Token  Mode = "token"  // a Kubernetes token, as a bearer token or as the password of basic authentication
	Header Mode = "header" // a proxy has authenticated the viewer, and names the user in headers
)

// Modes lists the modes.
var Modes = [...]Mode{None, Token, Header}

// The headers that a proxy sets.
const (
	userHeader   = "X-Forwarded-User"
	groupsHeader = "X-Forwarded-Groups"
)

// A Reviewer asks the API server about users.
type Reviewer interface {
	Authenticate(ctx context.Context, token string) (u overview.User, ok bool, err error)
	MayList(ctx context.Context, u *overview.User, namespace string) (bool, error)
}

// namespaces lists the namespaces that have workloads. While the cluster is still read, the list is not complete.
type namespaces interface {
	Namespaces() (names []string, complete bool)
}

// AccessConfig is the configuration of NewAccess.
type AccessConfig struct {
	Mode       Mode
	Reviewer   Reviewer       // nil if the mode is None
	Namespaces namespaces     // those that may have rows
	Proxies    []netip.Prefix // addresses from which the headers of a proxy are accepted
}

// Access decides who sees what. It is safe for several goroutines.
type Access struct {
	c       AccessConfig
	reviews *semaphore.Weighted // limits concurrent reviews

	users   *cache.LRUExpireCache // *overview.User by the checksum of the token
	refused *cache.LRUExpireCache // checksums of refused tokens, apart from users, so that they displace none
	rights  *cache.LRUExpireCache // knownRights by all that the API server knows of a user
}

// knownRights are the answers of the API server about a user.
type knownRights struct {
	viewer overview.Viewer // Namespaces also has those that the user may not see
	until  time.Time
}

const (
	reviewTimeout = 5 * time.Second  // of all reviews of a request
	remember      = time.Minute      // how long an answer of the API server is used
	maxReviews    = 16               // concurrent requests to the API server
	maxKnown      = 1024             // users, tokens and refused tokens that are remembered
	maxToken      = 16 << 10         // bytes
	refusedFor    = 10 * time.Second // how long a refused token is remembered
	maxNamespaces = 2000             // that are asked about for one viewer
	askAtOnce     = 8                // concurrent reviews for one viewer
)

// NewAccess returns an Access.
func NewAccess(c AccessConfig) *Access {
	return &Access{
		c: c, reviews: semaphore.NewWeighted(maxReviews),
		users: cache.NewLRUExpireCache(maxKnown), refused: cache.NewLRUExpireCache(maxKnown), rights: cache.NewLRUExpireCache(maxKnown),
	}
}

// A refusal is why a request is not served.
type refusal struct {
	status int
	text   string
	err    error // nil if the viewer is at fault
}

// viewer returns who sent a request and what that user may see.
func (a *Access) viewer(r *http.Request) (*overview.Viewer, *refusal) {
	if a == nil || a.c.Mode == None {
		return &overview.Viewer{All: true}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	user, refused := a.user(ctx, r)
	if refused != nil {
		return nil, refused
	}
	v, complete, err := a.rightsOf(ctx, user)
	switch {
	case err != nil:
		return nil, &refusal{http.StatusServiceUnavailable, "The API server did not answer which namespaces you may see. Try again.", err}
	case v.All || slices.Contains(slices.Collect(maps.Values(v.Namespaces)), true):
		return v, nil
	case !complete:
		return nil, &refusal{http.StatusServiceUnavailable, "podfit is still reading the cluster, so it does not know yet which namespaces you may see. Try again.", nil}
	}
	return nil, &refusal{http.StatusForbidden, "User " + user.Name + " may not list VerticalPodAutoscalers and pods in any namespace with workloads.", nil}
}

func (a *Access) user(ctx context.Context, r *http.Request) (*overview.User, *refusal) {
	if a.c.Mode == Header {
		return a.proxied(r)
	}
	token := bearer(r)
	if token == "" || len(token) > maxToken {
		return nil, &refusal{http.StatusUnauthorized, "A Kubernetes token is required: as a bearer token, or as the password. Run \"kubectl create token NAME\" for a service account.", nil}
	}
	sum := sha256.Sum256([]byte(token))
	if known, ok := a.users.Get(sum); ok {
		user, _ := known.(*overview.User)
		return user, nil
	}
	if _, refused := a.refused.Get(sum); !refused {
		user, ok, err := a.authenticate(ctx, token)
		if err != nil {
			return nil, &refusal{http.StatusServiceUnavailable, "The API server did not check the token. Try again.", err}
		}
		if ok {
			a.users.Add(sum, &user, remember)
			return &user, nil
		}
		a.refused.Add(sum, true, refusedFor)
	}
	return nil, &refusal{http.StatusUnauthorized, "The API server refused the token. It may have expired.", nil}
}

func bearer(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	_, password, _ := r.BasicAuth()
	return password
}

func (a *Access) authenticate(ctx context.Context, token string) (overview.User, bool, error) {
	if err := a.reviews.Acquire(ctx, 1); err != nil {
		return overview.User{}, false, fmt.Errorf("wait for other requests about rights to end: %w", err)
	}
	defer a.reviews.Release(1)
	u, ok, err := a.c.Reviewer.Authenticate(ctx, token)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err() // an answer after the timeout does not count
	}
	return u, ok, err
}

// proxied returns the user that a proxy names. Groups of Kubernetes itself are ignored, because only the API server assigns them.
func (a *Access) proxied(r *http.Request) (*overview.User, *refusal) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil || !slices.ContainsFunc(a.c.Proxies, func(p netip.Prefix) bool { return p.Contains(address.Unmap()) }) {
		return nil, &refusal{http.StatusForbidden, "Requests are accepted only from the proxy. To allow its address, set --web-trusted-proxies.", nil}
	}
	names := r.Header.Values(userHeader)
	if len(names) != 1 || names[0] == "" || strings.HasPrefix(names[0], "system:") {
		return nil, &refusal{http.StatusUnauthorized, "The proxy did not name a user in the header " + userHeader + ".", nil}
	}
	u := &overview.User{Name: names[0], Groups: []string{"system:authenticated"}}
	for group := range strings.SplitSeq(strings.Join(r.Header.Values(groupsHeader), ","), ",") {
		if group = strings.TrimSpace(group); group != "" && !strings.HasPrefix(group, "system:") && len(u.Groups) < 200 {
			u.Groups = append(u.Groups, group)
		}
	}
	return u, nil
}

// rightsOf returns what a user may see. Namespaces that have appeared since the last answers are asked about. complete is false while more
// namespaces may appear because the cluster is still read.
func (a *Access) rightsOf(ctx context.Context, u *overview.User) (v *overview.Viewer, complete bool, err error) {
	key := fmt.Sprintf("%q", *u) // all of it, because tokens of one user may differ in Extra only, such as in their scopes
	remembered, found := a.rights.Get(key)
	known, _ := remembered.(knownRights)
	if !found {
		all, err := a.mayList(ctx, u, "")
		if err != nil {
			return nil, false, err
		}
		known = knownRights{viewer: overview.Viewer{Name: u.Name, All: all, Namespaces: map[string]bool{}}, until: time.Now().Add(remember)}
	}
	if !known.viewer.All {
		var names []string
		names, complete = a.c.Namespaces.Namespaces()
		known, err = a.askNamespaces(ctx, u, known, names)
	}
	a.rights.Add(key, known, time.Until(known.until)) // also after an error, so that the next attempt continues with the other namespaces
	if err != nil {
		return nil, false, err
	}
	return &known.viewer, complete, nil
}

// askNamespaces asks about namespaces whose answer is not known. It returns a new map, because other requests read the old one. With an error, the
// result has the answers that came in time.
func (a *Access) askNamespaces(ctx context.Context, u *overview.User, known knownRights, names []string) (knownRights, error) {
	var unknown []string
	for _, ns := range names {
		if _, asked := known.viewer.Namespaces[ns]; !asked && len(unknown)+len(known.viewer.Namespaces) < maxNamespaces {
			unknown = append(unknown, ns)
		}
	}
	if len(unknown) == 0 {
		return known, nil
	}
	known.viewer.Namespaces = maps.Clone(known.viewer.Namespaces)
	var mu sync.Mutex
	var workers errgroup.Group
	workers.SetLimit(askAtOnce)
	var failures []error
	for _, ns := range unknown {
		workers.Go(func() error {
			may, err := a.mayList(ctx, u, ns)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, err)
			} else {
				known.viewer.Namespaces[ns] = may
			}
			return nil
		})
	}
	_ = workers.Wait() // errors are in failures
	if len(failures) > 0 {
		return known, fmt.Errorf("%d of %d reviews failed, the first: %w", len(failures), len(unknown), failures[0])
	}
	return known, nil
}

func (a *Access) mayList(ctx context.Context, u *overview.User, namespace string) (bool, error) {
	if err := a.reviews.Acquire(ctx, 1); err != nil {
		return false, fmt.Errorf("wait for other requests about rights to end: %w", err)
	}
	defer a.reviews.Release(1)
	may, err := a.c.Reviewer.MayList(ctx, u, namespace)
	if err == nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), errors.New("the answer came too late"))
	}
	return may && err == nil, err
}
