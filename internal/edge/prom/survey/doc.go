// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package survey reads the hourly peaks of all containers of many namespaces from Prometheus, or from a server with the same HTTP
// API, without overloading it.
//
// Prometheus computes the peaks, and joins pods with their owners if a recording rule stores these. A first set of cheap queries
// counts the series and finds the scrape interval (Survey.Plan). Then the survey reads one day of some namespaces after the other
// (Survey.Read). A query is so small that Prometheus needs at most a fifth of the samples that it permits per query. If Prometheus
// rejects a query as too large, or is overloaded, the survey waits and halves the query. No query is sent again unchanged. What is
// missing in the end is a Gap. A Cache stores past days, so that the next run reads only the present day.
//
// podfit recommend uses it as follows. Read ends at the end of the context; the parts until then are valid.
//
//	url, transport := flags.Prometheus, prom.Transport(prom.Config{TokenFile: ..., Insecure: ...})
//	if url == "" {                                          // discovery: clients are *kube.Clients
//		services, err := inspection.Services(ctx, clients, discovery.Selectors())
//		objects, err := inspection.Prometheuses(ctx, clients)
//		found, err := discovery.Choose(services, objects)   // discovery.ErrNone or discovery.Several
//		url, err = inspection.ServiceProxy(clients, found.Key, found.Scheme, found.Port, found.Path)
//		transport, header = clients.HTTP.Transport, found.Header
//	}
//	clusterUID, err := inspection.ClusterUID(ctx, clients)
//	dir, err := survey.DefaultDir()
//	s, err := survey.New(survey.Config{Address: url, Transport: transport, Cache: survey.OpenCache(dir, clusterUID)})
//	plan, err := s.Plan(ctx, namespaces, from, to)          // plan.Notes are texts for the user
//	for part, err := range s.Read(ctx, plan) {              // s.Progress() is for a progress bar, from any goroutine
//		for hour := range part.Hours() {                    // sorted by time
//			... hour.Workload, or the owner of hour.Pod if it is zero; hour.Sample(), hour.Kills, hour.Throttled
//		}
//		gaps, notes = append(gaps, part.Gaps...), append(notes, part.Notes...)
//		if err != nil { ... }                               // the last part; its gaps are everything that was not read
//	}
//	for _, gap := range survey.Merge(gaps) { ... }          // any gap: exit code 3
//
// It makes no decisions about sizes: it returns usage as it is stored.
package survey
