// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// TestPodfit_replacesUpstream_continuesFromItsState runs upstream's components, replaces them by podfit's with the same
// flags and objects, and switches back. After each switch, the new components continue with the stored history and change no
// pod. Both also evict and resize pods, and metrics, kubectl output and annotations of both are compared.
func TestPodfit_replacesUpstream_continuesFromItsState(t *testing.T) {
	p := newPlace(t, "switch-over")
	upstream := buildUpstream(t, p.root)
	for _, c := range p.components() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if err := p.startAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	flags := sharedFlags(p)

	evicted := steady("evicted")
	resizedOnes := spec{Name: "resized", CPU: "500m", Memory: "600Mi", Requests: "{cpu: 10m, memory: 100Mi}", Limits: "{memory: 700Mi}"}
	watched := spec{Kind: "StatefulSet", Name: "watched", CPU: "400m", Requests: "{cpu: 100m, memory: 250Mi}"}
	p.apply(evicted.manifest(), evicted.autoscaler("Recreate"), resizedOnes.manifest(), resizedOnes.autoscaler("InPlaceOrRecreate"),
		watched.manifest(), watched.autoscaler("Off"))

	look := p.startLens()
	old := p.start("evicted", 2)
	first := p.upstreamInstallation(upstream, flags)
	look.follow("upstream", first)
	p.eventually("upstream replaces pods", measured+resized, p.sized("evicted", 2, steadyTarget))
	if err := p.same("evicted", old)(t.Context()); err == nil {
		t.Error("upstream replaced no pod: they had the recommended size")
	}
	p.eventually("upstream resizes pods", resized, p.carriesItsTarget("resized"))
	p.eventually("upstream has written all recommendations and checkpoints", resized, p.complete)
	p.raise("900m", evicted, resizedOnes)
	upstreams := look.see("upstream", first)

	t.Log("from upstream to podfit")
	before := p.standstill(first)
	second := p.podfitInstallation(flags)
	look.follow("podfit", second)
	p.takesOver(second, before)
	columns, cells := p.table()
	pods := p.start("evicted", 2)
	if err := p.CoreV1().Pods(p.ns).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.eventually("podfit's webhook sizes a new pod", resized, func(ctx context.Context) error {
		now, err := p.pods(ctx, "evicted")
		if err != nil {
			return err
		}
		for _, pod := range now {
			if !slices.Contains(uids(pods), pod.UID) {
				if got := pod.Annotations["vpaUpdates"]; got != "Pod resources updated by evicted: container 0: cpu request, memory request" {
					return fmt.Errorf("vpaUpdates of %s is %q", pod.Name, got)
				}
				return p.sized("evicted", 2, "app cpu=900m memory=262144k")(ctx)
			}
		}
		return errors.New("the pod is not replaced")
	})
	p.raise("1200m", evicted, resizedOnes)
	podfits := look.see("podfit", second)
	podfits.columns, podfits.cells = columns, cells // from before podfit changed pods
	podfits.looksLike(p, upstreams)

	t.Log("from podfit to upstream")
	before = p.standstill(second)
	p.takesOver(p.upstreamInstallation(upstream, flags), before)
}

// buildUpstream builds upstream if necessary and returns the folder of its executables.
func buildUpstream(t *testing.T, root string) string {
	t.Helper()
	dir, err := bed.BuildUpstream(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// flagSet returns the flags of the components, for both implementations.
type flagSet struct{ recommender, updater, admission []string }

func sharedFlags(p *place) flagSet {
	p.Helper()
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	ca, cert, key := certificates(p.T)
	common := []string{"--vpa-object-namespace=" + p.ns, "--kube-api-qps=100", "--kube-api-burst=200", "--v=2"}
	return flagSet{
		recommender: append([]string{"--recommender-interval=5s"}, common...),
		updater:     append([]string{"--updater-interval=5s"}, common...),
		admission: append([]string{
			"--client-ca-file=" + ca, "--tls-cert-file=" + cert, "--tls-private-key=" + key, "--register-by-url",
			"--webhook-address=https://127.0.0.1", fmt.Sprintf("--webhook-port=%d", port), fmt.Sprintf("--port=%d", port),
			"--webhook-timeout-seconds=5", "--status-lease-update-interval=2s",
		}, common...),
	}
}

// certificates writes a CA, and a certificate and key for 127.0.0.1, as upstream's installation script does.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ownKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vpa_webhook_ca"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "vpa-webhook.kube-system.svc"}, NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "vpa-webhook.kube-system.svc"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &ownKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(ownKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return file("caCert.pem", "CERTIFICATE", rootDER), file("serverCert.pem", "CERTIFICATE", leafDER), file("serverKey.pem", "PRIVATE KEY", keyDER)
}

// A installation is the three components of one implementation.
type installation struct {
	recommender, updater, admission *bed.Podfit
	since                           time.Time
}

func (c *installation) all() []*bed.Podfit {
	return []*bed.Podfit{c.admission, c.recommender, c.updater}
}

// upstreamInstallation starts upstream's components as administrator, with a client certificate.
func (p *place) upstreamInstallation(dir string, flags flagSet) *installation {
	p.Helper()
	run := func(name string, args []string) *bed.Podfit { return p.upstreamPart(dir, name, "upstream-"+name, args) }
	return p.stoppedAtEnd(&installation{
		since: time.Now(), admission: run("admission-controller", flags.admission),
		recommender: run("recommender", flags.recommender), updater: run("updater", flags.updater),
	})
}

// upstreamPart starts one of upstream's components.
func (p *place) upstreamPart(dir, component, name string, args []string) *bed.Podfit {
	p.Helper()
	port, err := bed.FreePort()
	if err != nil {
		p.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	process, err := bed.Start(bed.Command{
		Name: name, Path: filepath.Join(dir, component), Log: filepath.Join(p.Dir, name+".log"),
		Args: append([]string{"--kubeconfig=" + p.Kubeconfig, "--address=" + address}, args...),
	})
	if err != nil {
		p.Fatal(err)
	}
	return &bed.Podfit{Process: process, Address: address}
}

// podfitInstallation starts podfit's components, each with the rights of its own service account.
func (p *place) podfitInstallation(flags flagSet) *installation {
	p.Helper()
	run := func(c bed.Component, args []string) *bed.Podfit {
		r, err := p.Cluster.Run(p.Context(), p.binary, c.Named("switch-over-"+c.Name).With(args...))
		if err != nil {
			p.Fatal(err)
		}
		return r
	}
	return p.stoppedAtEnd(&installation{
		since: time.Now(), admission: run(bed.Admission(), flags.admission),
		recommender: run(bed.Recommender(), flags.recommender), updater: run(bed.Updater(), flags.updater),
	})
}

// stoppedAtEnd stops an installation at the end of the test, and prints its logs if the test fails.
func (p *place) stoppedAtEnd(c *installation) *installation {
	p.endsWithTest(c.all()...)
	return c
}

// endsWithTest stops components at the end of the test, and prints their logs if the test fails.
func (p *place) endsWithTest(parts ...*bed.Podfit) {
	p.Cleanup(func() {
		for _, one := range parts {
			if p.Failed() {
				p.Logf("%s\n%s", one.Name, one.Tail(40))
			}
			if one.Running() {
				one.Kill()
			}
		}
	})
}

// passes returns the number of passes of the recommender and the updater, from metrics that both implementations have.
func (c *installation) passes(ctx context.Context) (recommender, updater int, err error) {
	for _, one := range c.all() {
		if !one.Running() {
			return 0, 0, fmt.Errorf("%s exited: %w", one.Name, one.Err())
		}
	}
	if recommender, err = count(ctx, c.recommender, `vpa_recommender_execution_latency_seconds_count{step="total"}`); err != nil {
		return 0, 0, err
	}
	updater, err = count(ctx, c.updater, `vpa_updater_execution_latency_seconds_count{step="total"}`)
	return recommender, updater, err
}

// morePasses returns a check that both have made this many more passes.
func (p *place) morePasses(c *installation, more int) func(context.Context) error {
	p.Helper()
	r, u, err := c.passes(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return func(ctx context.Context) error {
		nr, nu, err := c.passes(ctx)
		if err == nil && (nr < r+more || nu < u+more) {
			return fmt.Errorf("passes since the start: recommender %d, updater %d; in total %d and %d", nr-r, nu-u, nr, nu)
		}
		return err
	}
}

// count returns the value of a component's metric, 0 if there is none.
func count(ctx context.Context, one *bed.Podfit, series string) (int, error) {
	page, err := one.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(page, "\n") {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.Atoi(rest)
		}
	}
	return 0, nil
}

// carriesItsTarget returns a check that all pods of a workload have the target of its VPA.
func (p *place) carriesItsTarget(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := p.Autoscaler(ctx, p.ns, name)
		if err != nil {
			return err
		}
		return p.sized(name, 2, targets(a))(ctx)
	}
}

// complete returns an error if a VPA has no recommendation or no checkpoint with samples of both pods.
func (p *place) complete(ctx context.Context) error {
	as, err := p.Autoscalers(ctx, p.ns)
	if err != nil {
		return err
	}
	for _, a := range as {
		if targets(a) == "" {
			return fmt.Errorf("%s has no recommendation", a.Name)
		}
		c, err := p.checkpoint(ctx, a.Name+"-app")
		if err != nil {
			return err
		}
		if c.Status.TotalSamplesCount < 4 {
			return fmt.Errorf("%s has only %d samples", c.Name, c.Status.TotalSamplesCount)
		}
	}
	return nil
}

// A state is the state of the namespace at a switch.
type state struct {
	at          time.Time
	pods        map[types.UID]corev1.Pod
	autoscalers map[string]*vpav1.VerticalPodAutoscaler
	checkpoints map[string]*vpav1.VerticalPodAutoscalerCheckpoint
	version     string // resource version of the list of VPAs, for a watch
}

// standstill stops an installation and returns the state that it leaves.
func (p *place) standstill(c *installation) *state {
	p.Helper()
	for _, one := range c.all() {
		if !one.Running() {
			p.Fatalf("%s exited: %v\n%s", one.Name, one.Err(), one.Tail(20))
		}
		if err := one.Stop(); err != nil {
			p.Fatal(err)
		}
	}
	p.eventually("all pods run", resized, func(ctx context.Context) error {
		for _, app := range []string{"evicted", "resized", "watched"} {
			if _, err := p.running(ctx, app, 2); err != nil {
				return err
			}
		}
		return nil
	})
	s := &state{at: time.Now(), autoscalers: map[string]*vpav1.VerticalPodAutoscaler{}, checkpoints: map[string]*vpav1.VerticalPodAutoscalerCheckpoint{}}
	var err error
	if s.pods, err = p.allPods(p.Context()); err != nil {
		p.Fatal(err)
	}
	l, err := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns).List(p.Context(), metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	s.version = l.GetResourceVersion()
	for i := range l.Items {
		a, err := readAutoscaler(&l.Items[i])
		if err != nil {
			p.Fatal(err)
		}
		s.autoscalers[a.Name] = a
	}
	cs, err := p.Checkpoints(p.Context(), p.ns)
	if err != nil {
		p.Fatal(err)
	}
	for _, c := range cs {
		s.checkpoints[c.Name] = c
	}
	if len(s.autoscalers) != 3 || len(s.checkpoints) != 3 || len(s.pods) != 6 {
		p.Fatalf("the state has %d VPAs, %d checkpoints, %d pods", len(s.autoscalers), len(s.checkpoints), len(s.pods))
	}
	return s
}

func (p *place) allPods(ctx context.Context) (map[types.UID]corev1.Pod, error) {
	pods, err := p.pods(ctx, "")
	if err != nil {
		return nil, err
	}
	out := map[types.UID]corev1.Pod{}
	for _, pod := range pods {
		out[pod.UID] = pod
	}
	return out, nil
}

func readAutoscaler(u *unstructured.Unstructured) (*vpav1.VerticalPodAutoscaler, error) {
	a := &vpav1.VerticalPodAutoscaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, a); err != nil {
		return nil, fmt.Errorf("read %s: %w", u.GetName(), err)
	}
	return a, nil
}

// takesOver checks that a newly started installation continues from a state.
func (p *place) takesOver(c *installation, before *state) {
	p.Helper()
	seen := p.watchAutoscalers(before.version)
	p.eventually("the webhook is registered and its lease is current", time.Minute, func(ctx context.Context) error {
		l, err := p.CoordinationV1().Leases(bed.Namespace).Get(ctx, "vpa-admission-controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if l.Spec.RenewTime == nil || l.Spec.RenewTime.Time.Before(c.since) {
			return errors.New("the lease is old")
		}
		_, _, err = c.passes(ctx)
		return err
	})
	p.eventually("recommender and updater make several passes", time.Minute, p.morePasses(c, 4))
	p.eventually("new samples are added to the checkpoints", time.Minute, func(ctx context.Context) error { return p.continued(ctx, before) })

	now, err := p.allPods(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for uid, was := range before.pods {
		pod, ok := now[uid]
		if !ok {
			p.Errorf("pod %s was deleted", was.Name)
			continue
		}
		if pod.Generation != was.Generation || !maps.Equal(pod.Annotations, was.Annotations) || requests(pod) != requests(was) {
			p.Errorf("pod %s was changed: generation %d → %d, annotations %v → %v, requests %s → %s",
				pod.Name, was.Generation, pod.Generation, was.Annotations, pod.Annotations, requests(was), requests(pod))
		}
		for i := range pod.Status.ContainerStatuses {
			if n, m := was.Status.ContainerStatuses[i].RestartCount, pod.Status.ContainerStatuses[i].RestartCount; n != m {
				p.Errorf("pod %s: restarts %d → %d", pod.Name, n, m)
			}
		}
	}
	if len(now) != len(before.pods) {
		p.Errorf("number of pods: %d, before %d", len(now), len(before.pods))
	}
	p.explained(before, seen())
}

// continued returns an error if a checkpoint was not written since, or does not continue the previous one.
func (p *place) continued(ctx context.Context, before *state) error {
	cs, err := p.Checkpoints(ctx, p.ns)
	if err != nil {
		return err
	}
	if len(cs) != len(before.checkpoints) {
		return fmt.Errorf("number of checkpoints: %d, before %d", len(cs), len(before.checkpoints))
	}
	for _, c := range cs {
		was := before.checkpoints[c.Name]
		if was == nil {
			return fmt.Errorf("checkpoint %s is new", c.Name)
		}
		// Two pods are measured every 5 s. Only samples since the stop, and one that began before it, are new.
		most := was.Status.TotalSamplesCount + 2*(int(time.Since(before.at)/(5*time.Second))+2)
		if n := c.Status.TotalSamplesCount; n <= was.Status.TotalSamplesCount || n > most {
			return fmt.Errorf("checkpoint %s has %d samples, had %d, may have at most %d", c.Name, n, was.Status.TotalSamplesCount, most)
		}
		if !c.Status.FirstSampleStart.Equal(&was.Status.FirstSampleStart) {
			return fmt.Errorf("first sample of checkpoint %s: %v, was %v", c.Name, c.Status.FirstSampleStart, was.Status.FirstSampleStart)
		}
		if !c.Status.LastSampleStart.After(was.Status.LastSampleStart.Time) {
			return fmt.Errorf("checkpoint %s has no sample after %v", c.Name, was.Status.LastSampleStart)
		}
		if got, had := c.Status.CPUHistogram.TotalWeight, was.Status.CPUHistogram.TotalWeight; got <= had {
			return fmt.Errorf("total weight of checkpoint %s: %v, was %v", c.Name, got, had)
		}
	}
	return nil
}

// watchAutoscalers records every state of the VPAs since a resource version. The returned function ends the watch.
func (p *place) watchAutoscalers(since string) func() []*vpav1.VerticalPodAutoscaler {
	p.Helper()
	w, err := p.Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(p.ns).
		Watch(p.Context(), metav1.ListOptions{ResourceVersion: since})
	if err != nil {
		p.Fatal(err)
	}
	noted := make(chan []*vpav1.VerticalPodAutoscaler, 1)
	go func() {
		var all []*vpav1.VerticalPodAutoscaler
		for e := range w.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok {
				if a, err := readAutoscaler(u); err == nil {
					all = append(all, a)
				}
			}
		}
		noted <- all
	}()
	return func() []*vpav1.VerticalPodAutoscaler {
		w.Stop()
		return <-noted
	}
}

// upstreamsConditions returns the conditions of a VPA that upstream has, too.
func upstreamsConditions(a *vpav1.VerticalPodAutoscaler) []vpav1.VerticalPodAutoscalerCondition {
	return slices.DeleteFunc(slices.Clone(a.Status.Conditions), func(c vpav1.VerticalPodAutoscalerCondition) bool { return c.Type == "Updating" })
}

// explained checks every state of the VPAs: usage is constant, so targets stay equal, and bounds get narrower as the history
// grows.
func (p *place) explained(before *state, states []*vpav1.VerticalPodAutoscaler) {
	p.Helper()
	last := maps.Clone(before.autoscalers)
	moved := map[string]bool{}
	for _, a := range states {
		was := last[a.Name]
		last[a.Name] = a
		if !slices.EqualFunc(upstreamsConditions(a), upstreamsConditions(was), func(x, y vpav1.VerticalPodAutoscalerCondition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.LastTransitionTime.Equal(&y.LastTransitionTime)
		}) {
			p.Errorf("%s: conditions %+v → %+v", a.Name, was.Status.Conditions, a.Status.Conditions)
		}
		if targets(a) != targets(was) {
			p.Errorf("%s: target %q → %q", a.Name, targets(was), targets(a))
			continue
		}
		for i, r := range a.Status.Recommendation.ContainerRecommendations {
			o := was.Status.Recommendation.ContainerRecommendations[i]
			for _, res := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				from, to := o.LowerBound[res], r.LowerBound[res]
				if to.Cmp(from) < 0 {
					p.Errorf("%s: lower bound of %s %s → %s", a.Name, res, &from, &to)
				}
				if from, to = o.UpperBound[res], r.UpperBound[res]; to.Cmp(from) > 0 {
					p.Errorf("%s: upper bound of %s %s → %s", a.Name, res, &from, &to)
				} else if to.Cmp(from) < 0 {
					moved[a.Name] = true
				}
				if from, to = o.UncappedTarget[res], r.UncappedTarget[res]; to.Cmp(from) != 0 {
					p.Errorf("%s: uncapped target of %s %s → %s", a.Name, res, &from, &to)
				}
			}
		}
	}
	if len(moved) != len(before.autoscalers) {
		p.Errorf("only the bounds of %v became narrower", slices.Sorted(maps.Keys(moved)))
	}
}
