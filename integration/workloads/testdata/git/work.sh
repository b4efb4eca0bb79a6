# Everything local: no remote but a folder. Dates and names are fixed, so the hashes are too.
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
git init -q -b main repo
cd repo
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "line $i" >> file
	git add file
	git commit -q -m "commit $i"
done
git checkout -q -b side HEAD~5
echo side > other
git add other
git commit -q -m side
git checkout -q main
git merge -q -m merge side
git tag -a -m tag v1
git gc -q
git fsck --strict
cd ..
git clone -q repo clone
git clone -q --no-hardlinks repo copy
git clone -q --depth 2 "file://$PWD/repo" shallow
git clone -q --bare repo bare.git
cd clone
echo more >> other
git stash -q
git stash pop -q
git commit -q -a -m more
git push -q ../bare.git HEAD:refs/heads/pushed
git worktree add -q ../tree v1
git log --oneline --graph --all
git status --short
git -C ../bare.git rev-parse pushed
git -C ../shallow log --oneline
git mv file renamed
git diff --cached --stat
git bundle create -q ../all.bundle --all
git bundle verify -q ../all.bundle
