// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Allocates a fixed amount of memory for garbage while a set of objects of a known size is live, and prints what exporters of metrics would
 * report about this JVM, one "name value" per line. Arguments: live MiB, MiB to allocate, work for each allocated object.
 */
public class Load {
    static final int NODE = 48, GARBAGE = 1024, CHURN = 16; // bytes, about; one of CHURN objects replaces a live one

    static final class Node {
        long a, b, c, d;
    }

    static volatile long sink;
    static Node[] live;
    static volatile boolean ended;
    static double lowest = Double.MAX_VALUE, beside = Double.MAX_VALUE;

    public static void main(String[] args) throws Exception {
        int count = (int) (Long.parseLong(args[0]) * (1 << 20) / NODE);
        long objects = Long.parseLong(args[1]) * (1 << 20) / GARBAGE;
        int work = Integer.parseInt(args[2]);
        live = new Node[count];
        for (int i = 0; i < count; i++) {
            live[i] = new Node();
        }
        System.gc(); // copies the live objects to the old generation, which belongs to the start
        long started = System.nanoTime();
        double before = collecting();
        Thread sampler = new Thread(Load::sample);
        sampler.start();
        long random = 1;
        for (long i = 0; i < objects; i++) {
            byte[] garbage = new byte[GARBAGE];
            random = random * 6364136223846793005L + 1442695040888963407L;
            for (int j = 0; j < work; j++) {
                garbage[j & (GARBAGE - 1)] += (byte) (random >>> (j & 31));
            }
            if (i % CHURN == 0) {
                Node n = new Node(); // the one that it replaces is garbage in the old generation
                n.a = garbage[(int) (random >>> 54)];
                live[(int) (i / CHURN % count)] = n;
            }
            sink = garbage[1];
        }
        ended = true;
        sampler.join();
        double seconds = (System.nanoTime() - started) / 1e9, share = (collecting() - before) / seconds;
        System.gc(); // as the old collection that a JVM has once a day
        long collections = 0;
        for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (gc.getName().contains("MarkSweep") || gc.getName().contains("Old")) {
                collections += gc.getCollectionCount();
            }
        }
        double collected = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getType() == MemoryType.HEAP && (pool.getName().contains("Old Gen") || pool.getName().contains("Tenured Gen"))) {
                collected += pool.getCollectionUsage().getUsed();
            }
        }
        System.out.println("collected " + collected);
        System.out.println("collections " + collections);
        System.out.println("lowest " + lowest);
        System.out.println("ceiling " + ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getMax());
        System.out.println("nonheap " + ManagementFactory.getMemoryMXBean().getNonHeapMemoryUsage().getUsed());
        System.out.println("beside " + beside);
        System.out.println("gc " + share);
        System.out.println("seconds " + seconds);
        System.out.println("peak " + status("VmHWM:"));
    }

    /** The seconds of all collections. */
    static double collecting() {
        double seconds = 0;
        for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
            seconds += gc.getCollectionTime() / 1e3;
        }
        return seconds;
    }

    /** Runs as the worst hour of a JVM that has run for a day. */
    static void sample() {
        try {
            while (!ended) {
                Thread.sleep(5);
                double used = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
                lowest = Math.min(lowest, used);
                beside = Math.min(beside, status("VmRSS:") - used);
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static double status(String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith(name)) {
                return Double.parseDouble(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        throw new IOException(name + " is missing");
    }
}
