"""The steerability study: does a model draw the group that a prompt names, and one group as readily as another?"""
