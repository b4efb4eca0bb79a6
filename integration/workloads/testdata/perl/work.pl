use strict;
use warnings;
use File::Temp qw(tempdir);
use IO::Socket::INET;
use POSIX qw(:sys_wait_h strftime);
use Storable qw(dclone);
use Digest::SHA qw(sha256_hex);

$| = 1;
my %seen;
$seen{$_}++ for split /\W+/, 'the quick brown fox jumps over the lazy dog the end';
print 'words ', join(' ', map { "$_=$seen{$_}" } sort keys %seen), "\n";

pipe(my $reader, my $writer) or die "pipe: $!";
my $pid = fork() // die "fork: $!";
if ($pid == 0) {
	close $reader;
	print {$writer} "from the child\n";
	close $writer;
	POSIX::_exit(5);
}
close $writer;
print 'pipe ', scalar <$reader>;
waitpid($pid, 0);
print 'status ', $? >> 8, "\n";

open(my $sorted, '-|', 'printf "b\na\n" | sort') or die "open: $!";
chomp(my @lines = <$sorted>);
print "sorted @lines\n";

my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "listen: $!";
if (!fork()) {
	my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->sockport) or die "connect: $!";
	print {$client} "over loopback\n";
	POSIX::_exit(0);
}
print 'socket ', scalar readline($server->accept);
wait;

local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; select(undef, undef, undef, 30); };
print "signal $@";

my $dir = tempdir(CLEANUP => 1);
open(my $out, '>', "$dir/x") or die "open: $!";
print {$out} "x\n";
close $out;
rename("$dir/x", "$dir/y") or die "rename: $!";
print 'files ', -s "$dir/y", "\n";
print 'copy ', dclone({ a => [1, 2, 3] })->{a}[2], ' ', substr(sha256_hex('gobox'), 0, 16), "\n";
print 'time ', strftime('%Y-%m-%d', gmtime(0)), "\n";
exit 4;
