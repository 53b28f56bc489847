// What is advised for the heap of a JVM, tried with a real JDK. A module of its own, because it needs Debian's openjdk-17-jdk-headless.
module podfit.dev/podfit/test/jvm

go 1.26.0

require podfit.dev/podfit v0.0.0

replace podfit.dev/podfit => ../..
