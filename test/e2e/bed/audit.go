// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/invariant"
)

// accounts are podfit's service accounts.
var accounts = []string{"vpa-recommender", "vpa-updater", "vpa-admission-controller", "podfit"}

// auditPolicy logs what the invariants need: all writes of podfit except events, the creation of pods by any user, and every
// write to a VPA with its response. For Rights it logs podfit's other requests without their bodies, and what kubelets ask about podfit's rights.
// Requests for configmaps of markNamespace mark positions in the log.
var auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
` + auditedUsers + `
  resources: [{group: "", resources: [events]}, {group: events.k8s.io}]
- level: None
  resources: [{group: "", resources: [events]}, {group: events.k8s.io}]
- level: Metadata
  verbs: [create, update, patch, delete]
  namespaces: [` + Namespace + `]
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources: [{group: autoscaling.k8s.io, resources: [verticalpodautoscalers, verticalpodautoscalers/status]}]
- level: Request
` + auditedUsers + `
  verbs: [create, update, patch, delete, deletecollection]
- level: RequestResponse
  userGroups: [system:nodes]
  verbs: [create]
  resources: [{group: authorization.k8s.io, resources: [` + reviews + `]}]
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [pods]}]
- level: Metadata
  verbs: [get]
  namespaces: [` + markNamespace + `]
  resources: [{group: "", resources: [configmaps]}]
- level: Metadata
` + auditedUsers + `
- level: None
`

// auditedUsers is the part of a rule that restricts it to podfit's service accounts.
var auditedUsers = "  users: [" + strings.Join(userNames(), ", ") + "]"

func userNames() (out []string) {
	for _, a := range accounts {
		out = append(out, `"`+accountPrefix+a+`"`)
	}
	return out
}

// reviews is the resource of the requests by which kubelets ask whether an account has a right.
const reviews = "subjectaccessreviews"

const accountPrefix = "system:serviceaccount:" + Namespace + ":"

// markNamespace does not exist. A request for an object in it adds a line to the audit log.
const markNamespace = "podfit-audit-mark"

// An auditLine is an entry of the audit log.
type auditLine struct {
	Verb string
	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus struct {
		Code    int
		Message string
	}
	RequestObject            json.RawMessage
	ResponseObject           json.RawMessage
	RequestReceivedTimestamp time.Time
	RequestURI               string
	Annotations              map[string]string
}

// auditFacts are the observations from the audit log.
type auditFacts struct {
	writes      []invariant.Write
	autoscalers []invariant.Autoscaler
	writers     map[string]string    // user who last wrote the status of a VPA, by namespace/name
	recommended map[string]time.Time // when that was
	mark        string               // the last mark
}

func newAuditFacts() auditFacts {
	return auditFacts{writers: map[string]string{}, recommended: map[string]time.Time{}}
}

// add reads a line.
func (f *auditFacts) add(line []byte) error {
	var a auditLine
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("read a line of the audit log: %w", err)
	}
	switch {
	case a.ObjectRef.Namespace == markNamespace:
		f.mark = a.ObjectRef.Name
		return nil
	case !slices.Contains(writing, a.Verb), a.ObjectRef.Resource == "events", a.ObjectRef.Resource == reviews:
		return nil
	case a.ObjectRef.Resource == vpav1.ResourceAutoscalers:
		if err := f.addAutoscaler(&a); err != nil {
			return err
		}
	}
	w, err := a.write()
	if err != nil {
		return err
	}
	f.writes = append(f.writes, w)
	return nil
}

// writing are the verbs of writes.
var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

// account returns the name of one of podfit's service accounts, or a user's whole name.
func (a *auditLine) account() string {
	return strings.TrimPrefix(a.User.Username, accountPrefix)
}

// process returns an identifier of the token of a request. Every process of the test bed has its own token.
func (a *auditLine) process() string {
	for _, id := range a.User.Extra["authentication.kubernetes.io/credential-id"] {
		if token, ok := strings.CutPrefix(id, "JTI="); ok && len(token) >= 8 {
			return token[:8]
		}
	}
	return "-"
}

func (a *auditLine) write() (invariant.Write, error) {
	w := invariant.Write{
		At: a.RequestReceivedTimestamp, User: a.account(), Process: a.process(), Verb: a.Verb,
		Resource: a.ObjectRef.Resource, Subresource: a.ObjectRef.Subresource, Namespace: a.ObjectRef.Namespace, Name: a.ObjectRef.Name,
		Code: a.ResponseStatus.Code, Message: a.ResponseStatus.Message, Body: string(a.RequestObject),
		DryRun: strings.Contains(a.RequestURI, "dryRun="), Shaped: a.shaped(),
	}
	if len(a.RequestObject) == 0 {
		return w, nil
	}
	var body struct {
		Metadata      struct{ UID string }
		DeleteOptions struct{ Preconditions struct{ UID string } }
		Spec          struct {
			Containers           []corev1.Container
			HolderIdentity       string
			LeaseDurationSeconds int
		}
	}
	switch {
	case w.Resource == "pods" && w.Subresource != "", w.Resource == "leases":
		if err := json.Unmarshal(a.RequestObject, &body); err != nil {
			return w, fmt.Errorf("read the request for %s %s/%s in the audit log: %w", w.Resource, w.Namespace, w.Name, err)
		}
	}
	w.UID = body.DeleteOptions.Preconditions.UID
	if w.Subresource == "resize" {
		w.UID = body.Metadata.UID
		w.Requests = map[string]invariant.Amounts{}
		for _, c := range body.Spec.Containers {
			w.Requests[c.Name] = amounts(c.Resources.Requests)
		}
	}
	w.Lease = invariant.Lease{Holder: body.Spec.HolderIdentity, For: time.Duration(body.Spec.LeaseDurationSeconds) * time.Second}
	return w, nil
}

// shaped returns the patch that podfit's webhook applied to the object, or "".
func (a *auditLine) shaped() string {
	for name, text := range a.Annotations {
		if !strings.HasPrefix(name, "patch.webhook.admission.k8s.io/") {
			continue
		}
		var by struct {
			Configuration string
			Patch         json.RawMessage
		}
		if json.Unmarshal([]byte(text), &by) == nil && by.Configuration == webhookConfiguration {
			return string(by.Patch)
		}
	}
	return ""
}

// webhookConfiguration is the name of podfit's registration.
const webhookConfiguration = "vpa-webhook-config"

func (f *auditFacts) addAutoscaler(a *auditLine) error {
	if a.ResponseStatus.Code >= 300 || strings.Contains(a.RequestURI, "dryRun=") {
		return nil
	}
	ref := a.ObjectRef
	if a.Verb == "deletecollection" || a.Verb == "delete" {
		for name := range f.writers {
			if name == ref.Namespace+"/"+ref.Name || ref.Name == "" && strings.HasPrefix(name, ref.Namespace+"/") {
				_, of, _ := strings.Cut(name, "/")
				f.autoscalers = append(f.autoscalers, invariant.Autoscaler{At: a.RequestReceivedTimestamp, Namespace: ref.Namespace, Name: of, Gone: true})
				delete(f.writers, name)
				delete(f.recommended, name)
			}
		}
		return nil
	}
	var o vpav1.VerticalPodAutoscaler
	if err := json.Unmarshal(a.ResponseObject, &o); err != nil {
		return fmt.Errorf("read autoscaler %s/%s in the audit log: %w", ref.Namespace, ref.Name, err)
	}
	name := o.Namespace + "/" + o.Name
	if ref.Subresource == "status" && a.account() != "vpa-updater" { // it writes conditions, and keeps the recommendation
		f.writers[name] = a.account()
		f.recommended[name] = a.RequestReceivedTimestamp
	} else if _, known := f.writers[name]; !known {
		f.writers[name] = ""
	}
	fact := autoscalerFact(&o, a.RequestReceivedTimestamp, f.writers[name])
	fact.Recommended = f.recommended[name]
	f.autoscalers = append(f.autoscalers, fact)
	return nil
}

func autoscalerFact(o *vpav1.VerticalPodAutoscaler, at time.Time, writer string) invariant.Autoscaler {
	out := invariant.Autoscaler{At: at, Namespace: o.Namespace, Name: o.Name, Writer: writer, RoleLabel: o.Annotations["podfit.dev/role-label"]}
	if t := o.Spec.TargetRef; t != nil {
		out.Target = invariant.Ref{Kind: t.Kind, Namespace: o.Namespace, Name: t.Name}
		if t.Kind == "DaemonSet" && out.RoleLabel == "" {
			out.RoleLabel = invariant.NodeSize
		}
	}
	if u := o.Spec.UpdatePolicy; u != nil && u.MinReplicas != nil {
		out.MinReplicas = int(*u.MinReplicas)
	}
	if o.Status.Recommendation == nil {
		return out
	}
	for _, r := range o.Status.Recommendation.ContainerRecommendations {
		one := invariant.Range{
			Container: r.ContainerName, Lower: amounts(r.LowerBound), Target: amounts(r.Target), Upper: amounts(r.UpperBound),
		}
		one.OfRoles = ofRoles(r.UncappedTarget)
		for res := range one.Lower { // the containers of a pod with pod-level requests may have their parts of it
			if part, shared := r.UncappedTarget[corev1.ResourceName("podfit.dev/shared-"+res)]; shared {
				one.Lower[res] = min(one.Lower[res], amounts(corev1.ResourceList{corev1.ResourceName(res): part})[res])
			}
		}
		if o.Spec.ResourcePolicy != nil {
			for _, p := range o.Spec.ResourcePolicy.ContainerPolicies {
				if p.ContainerName == r.ContainerName || p.ContainerName == "*" && one.AllowedLeast == nil {
					one.AllowedLeast = amounts(p.MinAllowed)
					one.AllowedGreatest = amounts(p.MaxAllowed)
				}
			}
		}
		out.Ranges = append(out.Ranges, one)
	}
	return out
}

// ofRoles returns the targets of pods with some roles, nil if there are none.
func ofRoles(l corev1.ResourceList) map[string]invariant.Amounts {
	var out map[string]invariant.Amounts
	for key, quantity := range l {
		name, role, isOfRole := strings.Cut(string(key), ".role.podfit.dev/")
		if !isOfRole {
			continue
		}
		if out == nil {
			out = map[string]invariant.Amounts{}
		}
		if out[role] == nil {
			out[role] = invariant.Amounts{}
		}
		maps.Copy(out[role], amounts(corev1.ResourceList{corev1.ResourceName(name): quantity}))
	}
	return out
}

// amounts returns CPU and memory of a list of resources.
func amounts(l corev1.ResourceList) invariant.Amounts {
	out := invariant.Amounts{}
	if q, ok := l[corev1.ResourceCPU]; ok {
		out["cpu"] = q.MilliValue()
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		out["memory"] = q.Value()
	}
	return out
}

// lines splits a text into its complete lines and the rest.
func lines(text []byte) (whole [][]byte, rest []byte) {
	for {
		line, after, found := bytes.Cut(text, []byte("\n"))
		if !found {
			return whole, text
		}
		whole = append(whole, line)
		text = after
	}
}
