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
	Refused map[string]int  // requests for which no role has a right, as the text of a grant, with their numbers
}

// Rights reads the audit log of the cluster. It needs Options.Audit.
func (c *Cluster) Rights(granted []Grant) (Rights, error) {
	f, err := os.Open(c.auditLog)
	if err != nil {
		return Rights{}, err
	}
	defer f.Close()
	return rightsOf(f, granted)
}

func rightsOf(log io.Reader, granted []Grant) (Rights, error) {
	out := Rights{Used: map[string]bool{}, Refused: map[string]int{}}
	seen := map[Grant]bool{}
	err := eachRequest(log, func(request Grant, refused, _ bool) {
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
		case !isGranted: // else a test has taken the right away, or the API server has just started and does not know the roles yet
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
	err = eachRequest(f, func(request Grant, refused, atKubelet bool) {
		switch text := request.String(); {
		case atKubelet && refused:
			requests = append(requests, "refused, "+text)
		case atKubelet:
			requests = append(requests, text)
		}
	})
	return requests, err
}

// eachRequest calls a function with each request of podfit's service accounts in an audit log, to the API server or to a kubelet.
func eachRequest(log io.Reader, do func(request Grant, refused, atKubelet bool)) error {
	for r := bufio.NewReader(log); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the last line may be incomplete
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if !bytes.Contains(line, []byte(`"`+accountPrefix)) {
			continue
		}
		var a auditLine
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("read a line of the audit log: %w", err)
		}
		request, refused := a.request(), a.Annotations["authorization.k8s.io/decision"] == "forbid"
		atKubelet := a.ObjectRef.Resource == reviews
		if atKubelet && a.ResponseStatus.Code >= 300 {
			continue // the kubelet got no answer
		}
		if atKubelet {
			var review authorizationv1.SubjectAccessReview
			if err := json.Unmarshal(a.ResponseObject, &review); err != nil {
				return fmt.Errorf("read what a kubelet asked: %w", err)
			}
			request, refused = reviewed(&review), !review.Status.Allowed
		}
		if slices.Contains(accounts, request.Account) {
			do(request, refused, atKubelet)
		}
	}
}

// reviewed describes a request to a kubelet as the right that it needs.
func reviewed(review *authorizationv1.SubjectAccessReview) Grant {
	g := Grant{Account: strings.TrimPrefix(review.Spec.User, accountPrefix)}
	if of := review.Spec.ResourceAttributes; of != nil {
		g.Verb, g.Resource, g.Name = of.Verb, of.Resource+"/"+of.Subresource, of.Name
	}
	return g
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

// Manifests returns the objects of the YAML files that Install applies, in the order of the files: those of the folder deploy, its CRDs, and deploy/rights.
func Manifests(deploy string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := filepath.WalkDir(deploy, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != deploy && d.Name() != "crds" && !strings.HasPrefix(path, filepath.Join(deploy, "rights")):
			return filepath.SkipDir // charts and examples
		case d.IsDir() || filepath.Ext(path) != ".yaml":
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		objects, err := Parse(b)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, objects...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", deploy, err)
	}
	return all, nil
}
