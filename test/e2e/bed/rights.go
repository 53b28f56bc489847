// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Grant is one verb on one resource, or on one path, that an installed role grants to one of podfit's service accounts.
type Grant struct {
	Account, Namespace    string // the namespace is empty if the role is granted in all of them
	Verb, Group, Resource string // the resource with its subresource, or a path that begins with "/"
	Name                  string // of the only object; "" for all
}

func (g Grant) String() string {
	text := g.Account + ": " + g.Verb + " " + g.Resource
	if g.Group != "" {
		text += "." + g.Group
	}
	if g.Name != "" {
		text += " named " + g.Name
	}
	if g.Namespace != "" {
		text += " in " + g.Namespace
	}
	return text
}

// allows reports whether the grant allows a request.
func (g *Grant) allows(request *Grant) bool {
	_, scale, _ := strings.Cut(request.Resource, "/")
	resource := g.Resource == request.Resource || g.Resource == "*/"+scale && scale != ""
	return g.Account == request.Account && g.Verb == request.Verb && resource && (g.Group == "*" || g.Group == request.Group) &&
		(g.Namespace == "" || g.Namespace == request.Namespace) && (g.Name == "" || g.Name == request.Name)
}

// Granted returns what the roles of the manifests grant to podfit's service accounts, in order.
func Granted(manifests []*unstructured.Unstructured) ([]Grant, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding
	for _, o := range manifests {
		var into any
		role, binding := rbacv1.Role{}, rbacv1.RoleBinding{}
		switch o.GetKind() {
		case "Role", "ClusterRole":
			into = &role
		case "RoleBinding", "ClusterRoleBinding":
			into = &binding
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if into == any(&role) {
			rules[o.GetKind()+" "+o.GetName()] = role.Rules
		} else {
			bindings = append(bindings, binding)
		}
	}
	all := map[Grant]bool{}
	for _, b := range bindings {
		own, ok := rules[b.RoleRef.Kind+" "+b.RoleRef.Name]
		if !ok {
			return nil, fmt.Errorf("binding %s: the manifests have no %s %s", b.Name, b.RoleRef.Kind, b.RoleRef.Name)
		}
		for _, s := range b.Subjects {
			for _, r := range own {
				addGrants(all, Grant{Account: s.Name, Namespace: b.Namespace}, r)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b Grant) int { return strings.Compare(a.String(), b.String()) }), nil
}

// addGrants adds each combination of a rule.
func addGrants(all map[Grant]bool, g Grant, r rbacv1.PolicyRule) {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, g.Verb = range r.Verbs {
		for _, g.Resource = range r.NonResourceURLs {
			all[g] = true
		}
		for _, g.Group = range r.APIGroups {
			for _, g.Resource = range r.Resources {
				for _, g.Name = range names {
					all[g] = true
				}
			}
		}
		g.Group, g.Name = "", ""
	}
}

// Rights are what the audit log of a cluster says about the rights of podfit's service accounts.
type Rights struct {
	Used    map[string]bool // grants, as text
	Refused map[string]int  // refused requests that no test expects, as the text of a grant, with their numbers
}

// refusals are the refused requests of podfit's service accounts that are no defect.
type refusals struct {
	mu       sync.Mutex
	expected map[string]bool // as the text of a grant, without namespaces and names
	settling [][2]time.Time  // when the API server may not have known the rights that are installed: start and end
}

// settle is how long an API server may refuse requests after it has started, or rights were installed: it watches roles and bindings.
const settle = 10 * time.Second

// settling notes that the API server has started, or that rights were installed, since a time.
func (c *Cluster) settling(since time.Time) {
	c.refusals.mu.Lock()
	defer c.refusals.mu.Unlock()
	c.refusals.settling = append(c.refusals.settling, [2]time.Time{since, time.Now().Add(settle)})
}

// ExpectRefused notes that a test expects that requests are refused. A request is written as "ACCOUNT: VERB RESOURCE.GROUP".
func (c *Cluster) ExpectRefused(requests ...string) {
	c.refusals.mu.Lock()
	defer c.refusals.mu.Unlock()
	if c.refusals.expected == nil {
		c.refusals.expected = map[string]bool{}
	}
	for _, r := range requests {
		c.refusals.expected[r] = true
	}
}

// isExpected reports whether a refused request is no defect. Installed rights grant it, or not.
func (r *refusals) isExpected(request Grant, isGranted bool, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	request.Namespace, request.Name = "", ""
	return r.expected[request.String()] || isGranted && slices.ContainsFunc(r.settling, func(s [2]time.Time) bool { return !at.Before(s[0]) && at.Before(s[1]) })
}

// Rights reads the audit log of the cluster. It needs Options.Audit.
func (c *Cluster) Rights(deploy string) (Rights, error) {
	manifests, err := Manifests(deploy, c.rights...)
	if err != nil {
		return Rights{}, err
	}
	granted, err := Granted(manifests)
	if err != nil {
		return Rights{}, err
	}
	f, err := os.Open(c.auditLog)
	if err != nil {
		return Rights{}, err
	}
	defer f.Close()
	return rightsOf(f, granted, &c.refusals)
}

func rightsOf(log io.Reader, granted []Grant, known *refusals) (Rights, error) {
	out := Rights{Used: map[string]bool{}, Refused: map[string]int{}}
	seen := map[Grant]bool{}
	err := eachRequest(log, func(request Grant, refused, atKubelet bool, at time.Time) {
		if seen[request] && !refused {
			return
		}
		isGranted := false
		for i := range granted {
			if g := &granted[i]; g.allows(&request) {
				isGranted = true
				if !refused {
					out.Used[g.String()] = true
				}
			}
		}
		switch {
		case !refused:
			seen[request] = true
		case atKubelet && isGranted: // a test has taken the right away
		case !known.isExpected(request, isGranted, at):
			request.Name = ""
			out.Refused[request.String()]++
		}
	})
	return out, err
}

// KubeletRequests returns the requests of podfit's service accounts to kubelets by the audit log of the cluster, as texts like
// "vpa-updater: get nodes/stats named node-1", with "refused, " before those that were. Kubelets remember answers of the API server: a refused request
// is not logged again within a second, and an allowed one within five.
func (c *Cluster) KubeletRequests() (requests []string, err error) {
	f, err := os.Open(c.auditLog)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = eachRequest(f, func(request Grant, refused, atKubelet bool, _ time.Time) {
		switch text := request.String(); {
		case atKubelet && refused:
			requests = append(requests, "refused, "+text)
		case atKubelet:
			requests = append(requests, text)
		}
	})
	return requests, err
}

// eachRequest calls a function with each request of podfit's service accounts in an audit log, to the API server or to a kubelet, and its time.
func eachRequest(log io.Reader, do func(request Grant, refused, atKubelet bool, at time.Time)) error {
	for r := bufio.NewReader(log); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the last line may be incomplete
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if !bytes.Contains(line, []byte(accountPrefix)) {
			continue
		}
		var a auditLine
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("read a line of the audit log: %w", err)
		}
		if slices.Contains(accounts, a.account()) {
			do(a.request(), a.isRefused(), false, a.RequestReceivedTimestamp)
			continue
		}
		if request, allowed, ok := a.reviewed(); ok {
			do(request, !allowed, true, a.RequestReceivedTimestamp)
		}
	}
}

// isRefused reports whether RBAC refused the request, or one of podfit's own policies did.
func (a *auditLine) isRefused() bool {
	return a.Annotations["authorization.k8s.io/decision"] == "forbid" || strings.Contains(a.ResponseStatus.Message, "ValidatingAdmissionPolicy 'podfit-")
}

// reviewed returns the right about which a kubelet asked the API server for a request of one of podfit's service accounts, and whether it is allowed. It is
// not ok if the line is none of these, or the kubelet got no answer.
func (a *auditLine) reviewed() (g Grant, allowed, ok bool) {
	if a.ObjectRef.Resource != reviews || !strings.HasPrefix(a.User.Username, "system:node:") {
		return g, false, false
	}
	var review authorizationv1.SubjectAccessReview
	if a.ResponseStatus.Code >= 300 || json.Unmarshal(a.ResponseObject, &review) != nil || review.Spec.ResourceAttributes == nil {
		return g, false, false
	}
	of := review.Spec.ResourceAttributes
	g = Grant{Account: strings.TrimPrefix(review.Spec.User, accountPrefix), Verb: of.Verb, Group: of.Group, Resource: of.Resource, Name: of.Name}
	if of.Subresource != "" {
		g.Resource += "/" + of.Subresource
	}
	return g, review.Status.Allowed, slices.Contains(accounts, g.Account)
}

// request describes a request as the right that it needs.
func (a *auditLine) request() Grant {
	g := Grant{
		Account: a.account(), Namespace: a.ObjectRef.Namespace, Verb: a.Verb, Group: a.ObjectRef.APIGroup, Resource: a.ObjectRef.Resource,
		Name: a.ObjectRef.Name,
	}
	if a.ObjectRef.Subresource != "" {
		g.Resource += "/" + a.ObjectRef.Subresource
	}
	if g.Resource == "" {
		g.Resource, _, _ = strings.Cut(a.RequestURI, "?")
	}
	return g
}

// Manifests returns the objects of the YAML files that Install applies, in the order of the files: those of the folder deploy, its CRDs, and the
// components of deploy/rights with the given names.
func Manifests(deploy string, components ...string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(deploy, "*.yaml"))
	if err != nil {
		return nil, err
	}
	crds, err := filepath.Glob(filepath.Join(deploy, "crds", "*.yaml"))
	if err != nil {
		return nil, err
	}
	files = append(files, crds...)
	if _, err := os.Stat(filepath.Join(deploy, "rights")); err == nil { // deploy/all-in-one has none
		for _, name := range components {
			files = append(files, filepath.Join(deploy, "rights", name, name+".yaml"))
		}
	}
	var all []*unstructured.Unstructured
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		objects, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Components returns the names of the components of deploy/rights.
func Components(deploy string) ([]string, error) {
	folders, err := os.ReadDir(filepath.Join(deploy, "rights"))
	if err != nil {
		return nil, fmt.Errorf("list the components of rights: %w", err)
	}
	var names []string
	for _, folder := range folders {
		names = append(names, folder.Name())
	}
	return names, nil
}
